#!/usr/bin/env python3
"""A client like grpcurl that only knows the API's address: reflection, over HTTP/2 without TLS."""

import sys
import tempfile
import unittest
from pathlib import Path

import harness

PLACES = [harness.ROOT / "third_party" / "grpc-reflection", Path("/usr/local/share/kinora/grpc-reflection")]
sys.path += [str(place) for place in PLACES]


class Reflection(unittest.TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.frontend = self.enterContext(harness.Frontend(folder))

    def test_every_service_and_all_that_it_imports_is_there_and_calls_work(self) -> None:
        import grpc
        from google.protobuf import descriptor_pool, empty_pb2, message_factory
        from grpc_reflection.v1alpha import proto_reflection_descriptor_database as reflection

        channel = self.enterContext(grpc.insecure_channel(self.frontend.address))
        database = reflection.ProtoReflectionDescriptorDatabase(channel)
        self.assertEqual(set(database.get_services()), {"kinora.v1.VideoGeneration", "kinora.v1.Models", "grpc.health.v1.Health"})
        pool = descriptor_pool.DescriptorPool(database)  # separate, so that it contains only what the server sent
        for service in database.get_services():
            for method in pool.FindServiceByName(service).methods:
                self.assertTrue(method.input_type.full_name and method.output_type.full_name)
        status = pool.FindMessageTypeByName("kinora.v1.Video").fields_by_name["error"].message_type
        self.assertEqual(status.file.name, "google/rpc/status.proto")

        factory = message_factory.MessageFactory(pool)
        reply = factory.GetPrototype(pool.FindMessageTypeByName("kinora.v1.ListModelsResponse"))
        models = channel.unary_unary("/kinora.v1.Models/ListModels", empty_pb2.Empty.SerializeToString, reply.FromString)(empty_pb2.Empty())
        self.assertEqual(models.models[0].family, "ltx-2.3")

    def test_a_newer_reflection_is_refused_so_that_clients_fall_back(self) -> None:
        import grpc

        channel = self.enterContext(grpc.insecure_channel(self.frontend.address))
        call = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        with self.assertRaises(grpc.RpcError) as raised:
            list(call(iter([b""])))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


if __name__ == "__main__":
    harness.main(modules=["grpc", "grpc_reflection"])
