"""Caffe2's `net_printer`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.visiting": "Visitor",
    "netgrad.tools.plan_analysis": """
        Analyzer analyze analyze_job analyze_net analyze_op analyze_step analyze_task analyze_task_group""",
    "netgrad.tools.plan_printing": """
        Printer Text _arg_val=_argument_value _get_step_context=_step_context _print_task_output=_output
        _sanitize_str=_quoted call commonprefix debug_net factor_prefix format_device_option format_value print_job
        print_net print_net_def print_op print_step print_task print_task_group to_string""",
})
