"""Define the protobuf messages of Kubernetes, with only the fields that distrain reads.

generated.proto in k8s.io/api contains all fields. An API server sends each message in an envelope: the bytes `k8s\\0`,
then a message Unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# In protobuf a map is a list of entries, as in generated.proto.
SCHEMA = """
message Unknown { optional PodList raw = 2; }
message ListMeta { optional string continue = 3; }
message PodList { repeated Pod items = 2; }
message Pod { optional ObjectMeta metadata = 1; optional PodSpec spec = 2; optional PodStatus status = 3; }

message ObjectMeta {
  optional string name = 1;
  optional string namespace = 3;
  optional bytes deletionTimestamp = 9;
  repeated StringEntry labels = 11;
  repeated Annotation annotations = 12;
  repeated OwnerReference ownerReferences = 13;
}
message Annotation { optional string key = 1; }
message OwnerReference { optional string kind = 1; }

message PodSpec {
  repeated Volume volumes = 1;
  repeated Container containers = 2;
  optional string nodeName = 10;
  optional Affinity affinity = 18;
  repeated Container initContainers = 20;
  optional int32 priority = 25;
  repeated QuantityEntry overhead = 32;
  optional ResourceRequirements resources = 40;
}
message Volume { optional string name = 1; optional VolumeSource volumeSource = 2; }
message VolumeSource {
  optional PersistentVolumeClaimVolumeSource persistentVolumeClaim = 10;
  optional EphemeralVolumeSource ephemeral = 29;
}
message PersistentVolumeClaimVolumeSource { optional string claimName = 1; }
message EphemeralVolumeSource { }
message Container {
  optional string name = 1;
  repeated ContainerPort ports = 6;
  optional ResourceRequirements resources = 8;
  optional string restartPolicy = 24;
}
message ContainerPort { optional int32 hostPort = 2; optional string protocol = 4; optional string hostIP = 5; }
message ResourceRequirements { repeated QuantityEntry limits = 1; repeated QuantityEntry requests = 2; }

message Affinity { optional PodAntiAffinity podAntiAffinity = 3; }
message PodAntiAffinity { repeated PodAffinityTerm requiredDuringSchedulingIgnoredDuringExecution = 1; }
message PodAffinityTerm {
  optional LabelSelector labelSelector = 1;
  repeated string namespaces = 2;
  optional string topologyKey = 3;
  optional LabelSelector namespaceSelector = 4;
  repeated string matchLabelKeys = 5;
  repeated string mismatchLabelKeys = 6;
}
message LabelSelector { repeated StringEntry matchLabels = 1; repeated LabelSelectorRequirement matchExpressions = 2; }
message LabelSelectorRequirement {
  optional string key = 1;
  optional string operator = 2;
  repeated string values = 3;
}

message PodStatus {
  optional string phase = 1;
  repeated PodCondition conditions = 2;
  repeated ContainerStatus containerStatuses = 8;
  repeated ContainerStatus initContainerStatuses = 10;
  optional string nominatedNodeName = 11;
}
message PodCondition { optional string type = 1; optional string reason = 5; }
message ContainerStatus {
  optional string name = 1;
  repeated QuantityEntry allocatedResources = 10;
  optional ResourceRequirements resources = 11;
}

message StringEntry { optional string key = 1; optional string value = 2; }
message QuantityEntry { optional string key = 1; optional Quantity value = 2; }
message Quantity { optional string string = 1; }
"""
# Messages that stay encoded until the plugin needs them.
LEFT = {"StringEntry", "Volume", "ContainerPort", "ResourceRequirements", "QuantityEntry", "PodAntiAffinity"}
# Messages that are decoded only for a few pods, because decoding them for every pod would take a quarter of the time.
RARE = {"PodCondition"}

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": Field.TYPE_STRING, "bytes": Field.TYPE_BYTES, "int32": Field.TYPE_INT32}
LABELS = {"optional": Field.LABEL_OPTIONAL, "repeated": Field.LABEL_REPEATED}


def _messages(package: str, left: Collection[str] = (), without: Collection[str] = ()) -> Mapping[str, Any]:
    """Return the schema's messages by name.

    Types in `left` are not decoded but stay bytes. Fields whose type is in `without` are left out.
    """
    file = descriptor_pb2.FileDescriptorProto(name=package, package=package, syntax="proto2")
    for name, fields in re.findall(r"message (\w+) {(.*?)}", SCHEMA, re.DOTALL):
        message = file.message_type.add(name=name)
        for label, type, field, number in re.findall(r"(\w+) (\w+) (\w+) = (\d+);", fields):
            if type in without:
                continue
            added = message.field.add(name=field, number=int(number), label=LABELS[label])
            if scalar := SCALARS.get("bytes" if type in left else type):
                added.type = scalar
            else:
                added.type, added.type_name = Field.TYPE_MESSAGE, f".{package}.{type}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        each.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{each.name}"))
        for each in file.message_type
    }


FEW, ALL = _messages("few", LEFT, RARE), _messages("all")
