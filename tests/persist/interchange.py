"""Files that are written with one implementation of Caffe2's modules and read with the other.

    PYTHON tests/persist/interchange.py write FOLDER    # writes them
    PYTHON tests/persist/interchange.py read FOLDER     # reads them, and checks that everything is as it was written

PYTHON is one with netgrad, or one with Caffe2 itself (torch 1.8.1): the script needs nothing but their common names.
`tests/persist/data` holds what Caffe2 itself wrote.
"""

import os
import sys

import numpy as np
from google.protobuf import text_format

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, utils, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter

#: tensors that Caffe2's own functions can make messages of
PROTODB = ["float32", "float64", "int32", "int64", "nested/name", "scalar"]
DTYPES = ["float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16"]


def run(type, inputs, outputs, **arguments):
    assert workspace.RunOperatorOnce(core.CreateOperator(type, inputs, outputs, **arguments))


def arrays():
    """Name -> array, one of every kind that a tensor may be."""
    found = {}
    for dtype in DTYPES:
        signed = not dtype.startswith("u") and dtype != "bool"
        found[dtype] = (np.array([[0, 1, 2], [-3 if signed else 3, 100, 7]]) * (0.5 if "float" in dtype else 1)
                        ).astype(dtype)
    found["nested/name"] = np.arange(20, dtype=np.float32).reshape(4, 5)
    found["extremes"] = np.array([-2 ** 63, 2 ** 63 - 1, -1, 2 ** 31, 127, 128], np.int64)
    found["special"] = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], np.float32)
    found["scalar"] = np.array(2.5, np.float32)
    found["empty"] = np.zeros((0, 3), np.float32)
    found["empty_bytes"] = np.zeros((2, 0), np.uint8)
    found["strings"] = np.array([[b"one"], [b""], [b"\xff\x00 two"]], dtype=object)
    found["no_strings"] = np.zeros((0,), dtype=object)
    return found


def check_arrays(names=None):
    for name, array in arrays().items():
        if names is None or name in names:
            found = workspace.FetchBlob(name)
            assert found.dtype == array.dtype and found.shape == array.shape, (name, found, array)
            assert found.tolist() == array.tolist() if array.dtype == object else \
                found.tobytes() == array.tobytes(), (name, found, array)


def write_tensors(path):
    for name, array in arrays().items():
        workspace.FeedBlob(name, array)
    run("Save", sorted(arrays()), [], db=path, db_type="minidb", absolute_path=1)


def read_tensors(path):
    run("Load", [], [], db=path, db_type="minidb", absolute_path=1, load_all=1)
    check_arrays()
    workspace.ResetWorkspace()
    run("Load", [], ["in/strings", "in/int8"], db=path, db_type="minidb", absolute_path=1, add_prefix="in/")
    assert workspace.FetchBlob("in/int8").tolist() == arrays()["int8"].tolist()


def write_pieces(path):
    for name, array in arrays().items():
        workspace.FeedBlob(name, array)
    run("Save", sorted(arrays()), [], db=path, db_type="minidb", absolute_path=1, chunk_size=3)


def write_opaque(path):
    """Blobs that are no tensors."""
    workspace.FeedBlob("a string", b"text \xff\x00")
    run("CreateCounter", [], ["counter"], init_count=70000)
    run("CreateMutex", [], ["mutex"])
    run("LongIndexCreate", [], ["numbers"], max_elements=10)
    workspace.FeedBlob("keys", np.array([7, -8, 900], np.int64))
    run("IndexLoad", ["numbers", "keys"], ["numbers"])
    run("IndexFreeze", ["numbers"], ["numbers"])
    run("StringIndexCreate", [], ["words"])
    workspace.FeedBlob("word keys", np.array([b"b", b"a"], dtype=object))
    run("IndexLoad", ["words", "word keys"], ["words"])
    run("CreateMap", [], ["no map"], key_dtype=core.DataType.INT64, value_dtype=core.DataType.INT32)
    workspace.FeedBlob("k", np.array([5], np.int64))
    workspace.FeedBlob("v", np.array([6], np.int32))
    run("KeyValueToMap", ["k", "v"], ["map"])
    run("Int8GivenTensorFill", [], ["bytes"], shape=[2, 3], values=b"abcd\xff\x00", Y_scale=0.25, Y_zero_point=3)
    run("Int8GivenIntTensorFill", [], ["bias"], shape=[3], values=[1, -2, 30000], Y_scale=0.125, Y_zero_point=0)
    run("CreateTreeCursor", [], ["place"], fields=["a:lengths", "a:values", "b"])
    workspace.FeedBlob("lengths", np.array([1, 2], np.int32))
    workspace.FeedBlob("values", np.array([1, 2, 3], np.int64))
    run("ReadNextBatch", ["place", "lengths", "values", "lengths"], ["x", "y", "z"], batch_size=1)
    run("CreateTreeCursor", [], ["start"], fields=["b"])
    names = ["a string", "counter", "mutex", "numbers", "words", "no map", "map", "bytes", "bias", "place", "start"]
    run("Save", names, [], db=path, db_type="minidb", absolute_path=1)


def read_opaque(path):
    run("Load", [], [], db=path, db_type="minidb", absolute_path=1, load_all=1)

    def fetched(type, *inputs, **arguments):
        outputs = [f"out{k}" for k in range(arguments.pop("outputs", 1))]
        run(type, list(inputs), outputs, **arguments)
        found = [workspace.FetchBlob(name).tolist() for name in outputs]
        return found if len(found) > 1 else found[0]

    assert workspace.FetchBlob("a string") == b"text \xff\x00"
    assert fetched("RetrieveCount", "counter") == 70000
    assert fetched("IndexStore", "numbers") == [7, -8, 900]
    workspace.FeedBlob("asked", np.array([900, 5], np.int64))
    assert fetched("IndexGet", "numbers", "asked") == [3, 0]
    assert fetched("IndexStore", "words") == [b"b", b"a"]
    assert fetched("MapToKeyValue", "map", outputs=2) == [[5], [6]]
    assert fetched("MapToKeyValue", "no map", outputs=2) == [[], []]
    assert fetched("Int8Dequantize", "bytes") == [[(q - 3) * 0.25 for q in row] for row in (b"abc", b"d\xff\x00")]
    assert workspace.FetchInt8Blob("bias").data.tolist() == [1, -2, 30000]
    assert fetched("GetCursorOffset", "place") == [1, 1]
    workspace.FeedBlob("one", np.array([4, 5], np.int64))
    assert fetched("ReadNextBatch", "start", "one", batch_size=1) == [4]
    net = core.Net("locked")
    net.AtomicFetchAdd(["mutex", "count", "step"], ["count", "before"])
    workspace.FeedBlob("count", np.array([4], np.int32))
    workspace.FeedBlob("step", np.array([1], np.int32))
    assert workspace.RunNetOnce(net) and workspace.FetchBlob("before").reshape(-1).tolist() == [4]


def write_records(path):
    """A database for TensorProtosDBInput."""
    database = workspace.C.create_db("minidb", path, workspace.C.Mode.new)
    for k in range(5):
        protos = caffe2_pb2.TensorProtos()
        protos.protos.extend([utils.NumpyArrayToCaffe2Tensor(np.arange(3, dtype=np.float32) + k),
                              utils.NumpyArrayToCaffe2Tensor(np.array(k, dtype=np.int32))])
        transaction = database.new_transaction()
        transaction.put(f"{k:03}".encode(), protos.SerializeToString())
        del transaction
    database.close()


def read_records(path):
    run("CreateDB", [], ["reader"], db=path, db_type="minidb", num_shards=2, shard_id=1)
    for expected in ([1, 3], [1, 3]):
        run("TensorProtosDBInput", ["reader"], ["x", "y"], batch_size=2, no_prefetch=1)
        assert workspace.FetchBlob("y").tolist() == expected
        assert workspace.FetchBlob("x").tolist() == [[k, k + 1, k + 2] for k in expected]


def write_protodb(path):
    database = workspace.C.create_db("protodb", path, workspace.C.Mode.new)
    for name in PROTODB:
        transaction = database.new_transaction()
        transaction.put(name.encode(), utils.NumpyArrayToCaffe2Tensor(arrays()[name], name).SerializeToString())
        del transaction
    database.close()


def read_protodb(path):
    database = workspace.C.create_db("protodb", path, workspace.C.Mode.read)
    cursor = database.new_cursor()
    found = {}
    while cursor.valid():
        tensor = caffe2_pb2.TensorProto()
        tensor.ParseFromString(cursor.value())
        found[cursor.key().decode()] = tensor
        cursor.next()
    assert list(found) == PROTODB
    for name in PROTODB:
        assert utils.Caffe2TensorToNumpyArray(found[name]).tolist() == arrays()[name].tolist()


def model():
    """A small net, its parameters in the workspace, an input and what it should make of it."""
    workspace.ResetWorkspace()
    core.Net._net_names_used.clear()
    helper = model_helper.ModelHelper("interchange")
    brew.fc(helper, "data", "hidden", dim_in=4, dim_out=3)
    brew.relu(helper, "hidden", "hidden")
    brew.fc(helper, "hidden", "out", dim_in=3, dim_out=2)
    values = {
        "hidden_w": np.linspace(-1, 1, 12).reshape(3, 4), "hidden_b": np.array([0, 1, 2]),
        "out_w": np.linspace(-2, 1, 6).reshape(2, 3), "out_b": np.array([0.5, -1])}
    values = {name: value.astype(np.float32) for name, value in values.items()}
    for name, value in values.items():
        workspace.FeedBlob(name, value)
    data = np.linspace(-1, 3, 8).reshape(2, 4).astype(np.float32)
    hidden = np.maximum(data @ values["hidden_w"].T + values["hidden_b"], 0)
    return helper, data, hidden @ values["out_w"].T + values["out_b"]


def write_predictor(path):
    helper, _, _ = model()
    predictor_exporter.save_to_db("minidb", path, predictor_exporter.PredictorExportMeta(
        helper.net, sorted(map(str, helper.params)), ["data"], ["out"], shapes={"data": (1, 4), "out": (1, 2)}))


def read_predictor(path):
    _, data, expected = model()
    workspace.ResetWorkspace()
    net = predictor_exporter.prepare_prediction_net(path, "minidb")
    workspace.FeedBlob("data", data)
    assert workspace.RunNet(net)
    np.testing.assert_allclose(workspace.FetchBlob("out"), expected, rtol=1e-5)


def write_mobile(path):
    helper, _, _ = model()
    init_net, predict_net = mobile_exporter.Export(workspace, helper.net, sorted(map(str, helper.params)))
    for suffix, net in ((".init", init_net), (".predict", predict_net)):
        with open(path + suffix, "wb") as file:
            file.write(net.SerializeToString())
    with open(path + ".init.pbtxt", "w") as text:
        text.write(str(init_net))
    with open(path + ".predict.pbtxt", "w") as text:
        text.write(str(predict_net))


def read_mobile(path):
    _, data, expected = model()
    workspace.ResetWorkspace()
    nets = []
    for suffix in (".init", ".predict"):
        with open(path + suffix, "rb") as file:
            nets.append(file.read())
        with open(path + suffix + ".pbtxt") as text:
            assert text_format.Parse(text.read(), caffe2_pb2.NetDef()) == caffe2_pb2.NetDef.FromString(nets[-1])
    predictor = workspace.Predictor(*nets)
    np.testing.assert_allclose(predictor.run({"data": data})[0], expected, rtol=1e-5)


#: file -> what writes and what reads it
FILES = {
    "tensors.minidb": (write_tensors, read_tensors), "pieces.minidb": (write_pieces, read_tensors),
    "opaque.minidb": (write_opaque, read_opaque), "records.minidb": (write_records, read_records),
    "tensors.protodb": (write_protodb, read_protodb), "predictor.minidb": (write_predictor, read_predictor),
    "mobile": (write_mobile, read_mobile),
}


def main(what, folder):
    os.makedirs(folder, exist_ok=True)
    for name, (write, read) in FILES.items():
        workspace.ResetWorkspace()
        (write if what == "write" else read)(os.path.join(folder, name))
        print(what, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
