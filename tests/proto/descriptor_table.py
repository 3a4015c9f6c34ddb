"""The facts of a compiled `.proto` file as plain data; runs on Caffe2's Python 3.8 and protobuf 3 as well."""

from google.protobuf import descriptor_pb2


def describe(field):
    """[number, label, type, type name, default, packed, deprecated], in the terms of descriptor.proto."""
    options = field.options
    return [
        field.number,
        field.label,
        field.type,
        field.type_name,
        field.default_value,
        options.packed,
        options.deprecated,
    ]


def numbers(module):
    """Every message and enum of a generated module, by its name within the package."""
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    table = {"file": file.name, "package": file.package, "messages": {}, "enums": {}}

    def visit(prefix, messages, enums):
        for enum in enums:
            table["enums"][prefix + enum.name] = {value.name: value.number for value in enum.value}
        for message in messages:
            table["messages"][prefix + message.name] = {field.name: describe(field) for field in message.field}
            visit(prefix + message.name + ".", message.nested_type, message.enum_type)

    visit("", file.message_type, file.enum_type)
    return table
