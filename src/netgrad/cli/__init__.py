"""The command `netgrad`: reading, differentiating, explaining, checking and running nets in files.

Results go to standard output, plain where that is no terminal. What goes wrong is one line on standard error, and an
exit status: 1 where a net or file is at fault (or `check` or `verify` found something), 2 where the use was wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

#: What errors advise a program to do, and what that is at the command line.
_ADVICE = {
    "read it as text (text=True, or a name that ends in .pbtxt)": "give it a name that ends in .pbtxt",
    "read it as such (text=False, or a name that ends in .pb)": "give it a name that ends in .pb",
    "read it as one (cls=PlanDef)": "`netgrad show` shows it",
    "read it as one (cls=MetaNetDef)": "`netgrad show` shows it",
    'overwritten="save"': "--overwritten save",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command; always ends in SystemExit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    from netgrad.cli.commands import netgrad

    try:
        status = netgrad.main(list(arguments), prog_name="netgrad", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "netgrad"
        return _fail(f"{command}: {_one_line(error.format_message())} (see {command} --help)", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("netgrad: interrupted", 130)
    except BrokenPipeError:  # whoever read our output has gone; nothing more may be written there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if "--debug" in arguments:
            raise
        return _fail(f"netgrad: {describe(error)}", 1)


def describe(error: Exception) -> str:
    """An error in one line. Errors that nobody foresaw carry their type, and where to look."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = _one_line(str(error))
    for advice, option in _ADVICE.items():
        text = text.replace(advice, option)
    if isinstance(error, (ValueError, RuntimeError, ImportError)):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _one_line(text: str) -> str:
    result = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        result += ("" if not result else " " if result[-1] in ".:;,!?" else "; ") + line
    return result


def _fail(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status
