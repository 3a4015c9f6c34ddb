"""Random programs of If, While and Do, nested and mixed, as nets that run: see `draw`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netgrad.control.operators import add_if_op, add_while_op
from netgrad.graph import registry
from netgrad.graph.control import effect_of_all
from netgrad.graph.net import Net

SHAPE = (2, 3)
#: one input; all may run in place
UNARY = ["Tanh", "Sigmoid", "Sin", "Sqr", "Negative", "Scale", "Softsign", "Relu"]
BINARY = ["Add", "Sub", "Mul", "Sum"]


@dataclass
class Program:
    """A net, what it is fed, and the blob that is differentiated.

    Attributes:
        parameters: fed blobs of fractions; their gradients are compared.
        control: how many If, While and Do it has, those inside counted.
    """

    net: Any
    feeds: dict[str, np.ndarray]
    y: str
    parameters: list[str]
    control: int = 0
    kinds: set[str] = field(default_factory=set)


class _Maker:
    def __init__(self, r: random.Random, most: int, depth: int) -> None:
        self.r = r
        self.most = most
        self.depth = depth
        self.count = 0
        self.feeds: dict[str, np.ndarray] = {"one": np.array([1], np.int64), "zero_row": np.array([0, 1, 0], np.int64)}
        self.control = 0
        self.kinds: set[str] = set()

    def name(self, scope: set[str]) -> str:
        """A new name; now and then one that looks like a gradient's, or a letter of a condition's."""
        self.count += 1
        if self.r.random() < 0.1:
            name = f"{self.r.choice(sorted(scope))}_grad"
            if name not in scope and name not in self.feeds:
                return name
        return f"v{self.count}"

    def flag(self, net: Net, floats: list[str]) -> str:
        """A condition: fixed, or by the data."""
        self.count += 1
        name = f"condition_{''.join(floats[:2])}_{self.count}"
        if self.r.random() < 0.5:
            self.feeds[f"flag{self.count}"] = np.array([self.r.random() < 0.6])
            net.Copy(f"flag{self.count}", name)
        else:
            sums = net.SumElements(self.r.choice(floats), f"sum{self.count}")
            self.feeds[f"limit{self.count}"] = np.array(self.r.uniform(-2, 2))
            net.GT([sums, f"limit{self.count}"], name)
        return name

    def step(self, net: Net, floats: list[str], scope: set[str]) -> None:
        r = self.r
        if r.random() < 0.1:
            out = self.name(scope)
            net.Gather([r.choice(floats), "zero_row"], f"rows_{out}")
            net.ReduceSum(f"rows_{out}", f"row_{out}", axes=[0], keepdims=0)
            net.Add([r.choice(floats), f"row_{out}"], out, broadcast=1)
        elif r.random() < 0.5:
            a = r.choice(floats)
            out = a if r.random() < 0.4 else r.choice(floats) if r.random() < 0.3 else self.name(scope)
            type = r.choice(UNARY)
            if out == a and not registry.find(type).may_be_inplace(0, 0):
                out = self.name(scope)
            getattr(net, type)(a, out, **({"scale": r.choice([-0.5, 0.7, 1.3])} if type == "Scale" else {}))
        else:
            a, b = r.choice(floats), r.choice(floats)
            out = a if r.random() < 0.4 else r.choice(floats) if r.random() < 0.3 else self.name(scope)
            type = r.choice(BINARY)
            if any(out == each and not registry.find(type).may_be_inplace(k, 0) for k, each in enumerate((a, b))):
                out = self.name(scope)
            getattr(net, type)([a, b], out)
            if r.random() < 0.7:  # so that loops do not run off
                net.Tanh(out, out)
        if out not in floats:
            floats.append(out)
        scope.add(out)

    def block(self, net: Net, floats: list[str], scope: set[str], depth: int) -> None:
        for _ in range(self.r.randint(1, 3)):
            kind = self.r.random()
            if depth > 0 and kind < 0.3:
                self.branch(net, floats, scope, depth)
            elif depth > 0 and kind < 0.5:
                self.loop(net, floats, scope, depth)
            elif depth > 0 and kind < 0.58:
                self.do(net, floats, scope, depth)
            else:
                self.step(net, floats, scope)

    def inside(self, name: str, floats: list[str], scope: set[str], depth: int) -> Net:
        net = Net(name)
        self.block(net, list(floats), set(scope), depth - 1)
        return net

    def branch(self, net: Net, floats: list[str], scope: set[str], depth: int) -> None:
        self.control += 1
        self.kinds.add("If")
        cond = self.flag(net, floats)
        then = self.inside("then", floats, scope, depth)
        other = self.inside("other", floats, scope, depth) if self.r.random() < 0.6 else None
        if self.r.random() < 0.2:  # branches that run on the blobs around, without a workspace of their own
            self.kinds.add("plain If")
            nets = {"then_net": then.Proto()} | ({"else_net": other.Proto()} if other else {})
            reads = list(dict.fromkeys(b for n in nets.values() for b in effect_of_all(n.op).reads
                                       if b in floats or b in self.feeds))
            if depth == self.depth:  # where no net around must be told what is read
                reads = [b for b in reads if self.r.random() < 0.8]
            written = {o for n in nets.values() for o in effect_of_all(n.op).writes}
            net.If([cond, *reads], [b for b in floats if b in written], **nets)
        else:
            add_if_op(net, cond, self.visible(scope) | {cond}, then, other)

    def loop(self, net: Net, floats: list[str], scope: set[str], depth: int) -> None:
        self.control += 1
        self.kinds.add("While")
        self.count += 1
        count, limit, cond = f"i{self.count}", f"rounds{self.count}", f"go{self.count}"
        most = self.most if depth == self.depth else 3  # loops in loops multiply
        self.feeds[limit] = np.array([self.r.choice([0, 0, 1, 2, 3, most])], np.int64)
        net.ConstantFill([], count, shape=[1], value=0, dtype=10)
        condition, body = Net("condition"), self.inside("body", floats, scope, depth)
        if self.r.random() < 0.5:
            condition.LT([count, limit], cond)
            body.Add([count, "one"], count)
        else:  # until the numbers say so
            self.kinds.add("data-dependent While")
            self.feeds[f"bound{self.count}"] = np.array(self.r.uniform(-3, 3))
            watched = self.r.choice(floats)
            condition.SumElements(watched, f"sum{cond}")
            condition.LT([f"sum{cond}", f"bound{self.count}"], f"far{cond}")
            condition.LT([count, limit], f"few{cond}")
            condition.And([f"far{cond}", f"few{cond}"], cond)
            body.Add([count, "one"], count)
        add_while_op(net, cond, self.visible(scope) | {count}, body, condition)

    def do(self, net: Net, floats: list[str], scope: set[str], depth: int) -> None:
        """A Do that calls the blobs outside by other names."""
        self.control += 1
        self.kinds.add("Do")
        self.count += 1
        inner = {blob: f"in_{blob}" for blob in floats}
        made = f"result{self.count}"
        body = self.inside("inner", list(inner.values()), set(inner.values()), depth)
        body.Sum([inner[self.r.choice(floats)], inner[self.r.choice(floats)]], f"in_{made}")
        found = effect_of_all(body.Proto().op)
        written = found.writes
        extra = [name for name in found.reads if name in self.feeds and name not in inner.values()]
        outputs = [*(b for b in floats if inner[b] in written), made]
        net.CreateScope([], f"scope{self.count}")
        inputs = [*floats, *extra]
        net.Do([*inputs, f"scope{self.count}"], [*outputs, f"scope{self.count}"], net=body.Proto(),
               inner_blobs=[*inner.values(), *extra, f"in_{made}"],
               outer_blobs_idx=[*range(len(inputs)), len(inputs) + len(outputs) - 1])
        floats.append(made)
        scope.add(made)

    def visible(self, scope: set[str]) -> set[str]:
        return {*scope, *self.feeds}


def draw(seed: int, most: int = 5, depth: int = 3) -> Program:
    """A program of at most so many rounds in a loop and so much nesting."""
    r = random.Random(seed)
    maker = _Maker(r, most, depth)
    numbers = np.random.default_rng(seed)
    floats = [f"{letter}" for letter in "xyz"[: r.randint(2, 3)]]
    parameters = [f"{name}_fed" for name in floats]
    net = Net("program")
    for name, fed in zip(floats, parameters):
        maker.feeds[fed] = numbers.uniform(-1.5, 1.5, SHAPE)
        net.Copy(fed, name)
    scope = set(floats)
    while maker.control == 0:
        maker.block(net, floats, scope, depth)
    net.Sum([*floats], "total")
    net.Tanh("total", "bounded")
    net.SumElements("bounded", "y_of_all")
    return Program(net, maker.feeds, "y_of_all", parameters, maker.control, maker.kinds)
