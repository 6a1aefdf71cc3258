// A rank of the group "far" with a valid worker token, controlled by an attack.
#ifndef KINORA_TESTS_ATTACK_JOINED_RANK_H_
#define KINORA_TESTS_ATTACK_JOINED_RANK_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/build_version.h"
#include "server/request/model_conversion.h"
#include "tests/attack/attack.h"
#include "tests/request/descriptions.h"

namespace kinora {

class JoinedRank {
 public:
  explicit JoinedRank(const Target& target) {
    grpc::ChannelArguments apart;  // does not share a connection
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(target.join_address(), grpc::InsecureChannelCredentials(), apart);
    context_.AddMetadata("authorization", "Bearer " + Target::JoinToken());
    stream_ = v1::WorkerControl::NewStub(channel_)->Join(&context_);
  }
  ~JoinedRank() {
    context_.TryCancel();
    stream_->Finish();
  }

  static v1::Hello Hello() {
    v1::Hello hello;
    hello.set_group("far");
    hello.set_world_size(1);
    hello.set_protocol(ThisBuild().protocol);
    return hello;
  }
  static v1::ModelInfo Model() { return ToModelInfo(DescribeModel(Tiny()), "far"); }

  // Sends Hello, awaits Welcome and sends Ready. Returns false if it was rejected.
  bool Join() {
    v1::WorkerMessage message;
    *message.mutable_hello() = Hello();
    v1::FrontendMessage answer;
    if (!Say(message) || !Hear(answer) || !answer.has_welcome()) return false;
    *message.mutable_ready()->mutable_model() = Model();
    return Say(message);
  }
  bool Say(const v1::WorkerMessage& message) { return stream_->Write(message); }
  bool Hear(v1::FrontendMessage& message) { return stream_->Read(&message); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::FrontendMessage>> stream_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_JOINED_RANK_H_
