"""Caffe2's `memonger`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.memory.assignment": """
        AssignmentAlgorithm LiveRange Optimization compute_assignments compute_assignments_dp
        compute_assignments_greedy compute_blob_assignments compute_ranges get_memory_usage get_updated_ranges
        is_compatible verify_assignments""",
    "netgrad.tools.memory.estimates": """
        Statistics blob_nbytes collect_blob_sizes compute_statistics estimate_memory_usage log=logger""",
    "netgrad.tools.memory.interference": "optimize_interference",
    "netgrad.tools.memory.ordering": """
        compute_interference_graph topological_sort_traversal topological_sort_traversal_longest_path""",
    "netgrad.tools.memory.release": "release_blobs_when_used",
    "netgrad.tools.memory.renaming": """
        apply_assignments apply_recurrent_blob_assignments verify_graph_equality verify_inplace_blobs""",
    "netgrad.tools.memory.sharing": "optimize_inference_fast optimize_inference_for_dag share_grad_blobs",
}, {"core": "caffe2.python.core", "workspace": "caffe2.python.workspace", "caffe2_pb2": "netgrad.proto.caffe2_pb2"})
