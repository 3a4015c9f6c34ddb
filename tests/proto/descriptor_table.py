"""The facts of a compiled `.proto` file as plain data, from any version of protobuf (Caffe2's Python 3.8 runs this too)."""

from google.protobuf import descriptor_pb2


def numbers(module):
    """Every message and enum of a generated module, by its name within the package.

    A field is [number, label, type, type name, default, packed, deprecated], in the terms of descriptor.proto.
    """
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    table = {"file": file.name, "package": file.package, "messages": {}, "enums": {}}

    def visit(prefix, messages, enums):
        for enum in enums:
            table["enums"][prefix + enum.name] = {value.name: value.number for value in enum.value}
        for message in messages:
            table["messages"][prefix + message.name] = {
                f.name: [f.number, f.label, f.type, f.type_name, f.default_value, f.options.packed, f.options.deprecated]
                for f in message.field
            }
            visit(prefix + message.name + ".", message.nested_type, message.enum_type)

    visit("", file.message_type, file.enum_type)
    return table
