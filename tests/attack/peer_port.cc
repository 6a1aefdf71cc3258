// Strangers at the port on which frontends call each other: connections that send nothing, messages that are announced
// and never end, calls with another token. Then somebody with the token sends nonsense to every method.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/peer.pb.h"
#include "tests/attack/attack.h"
#include "tests/attack/shared_target.h"
#include "tests/attack/sockets.h"
#include "tests/testing/free_port.h"
#include "tests/testing/http2_flood.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr char kToken[] = "Bearer the token of the frontends";
constexpr const char* kMethods[] = {"TellNews",         "GetProgress",      "EstimateVideo",
                                    "ListWorkerGroups", "DrainWorkerGroup", "RestartWorkerGroup"};
constexpr int kSilent = 500, kFloods = 8, kStreams = 100, kNonsense = 300, kManyJobs = 60'000;

std::string Path(const char* method) { return absl::StrCat("/kinora.v1.Peer/", method); }

std::shared_ptr<grpc::Channel> Dial(const std::string& address) {
  grpc::ChannelArguments apart;
  apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), apart);
}

void Flood(const std::string& address, Effort& effort) {
  std::vector<std::unique_ptr<Http2Flood>> floods(kFloods);
  std::vector<std::thread> threads;
  for (std::unique_ptr<Http2Flood>& flood : floods) {
    flood = std::make_unique<Http2Flood>(address);
    ++effort.connections;
    threads.emplace_back([&flood] {
      flood->Run({.method = Path("EstimateVideo"),
                  .authorization = "",
                  .streams = kStreams,
                  .announced_bytes = 4 << 20,
                  .sent_bytes = 4'000'000,
                  .give_up = absl::Seconds(15)});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Http2Flood>& flood : floods) effort.bytes += flood->bytes_sent();
}

absl::Status CallAsStranger(const std::string& address) {
  const auto channel = Dial(address);
  for (const char* method : kMethods) {
    for (const char* token : {"", "Bearer the token of other frontends"}) {
      const absl::Status answer = RawCall(channel, Path(method), "", token).status();
      if (absl::IsUnauthenticated(answer)) continue;
      return absl::InternalError(absl::StrCat(method, " answers a stranger: ", answer.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status SendNonsense(const std::string& address, Effort& effort) {
  const auto channel = Dial(address);
  std::mt19937 random(1);
  for (int i = 0; i < kNonsense; ++i) {
    std::string bytes(random() % 2000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    for (const char* method : kMethods) {
      absl::Status answer = RawCall(channel, Path(method), bytes, kToken).status();
      if (absl::IsUnavailable(answer)) return answer;
      effort.bytes += static_cast<int64_t>(bytes.size());
    }
  }
  v1::ProgressRequest progress;
  v1::News news;
  for (int i = 0; i < kManyJobs; ++i) {
    const std::string id = absl::StrCat("a job that nobody has created ", i);
    (*progress.mutable_known())[id] = i;
    news.add_changed(id);
  }
  news.set_queued(true);
  news.set_cancelled(true);
  KINORA_RETURN_IF_ERROR(RawCall(channel, Path("GetProgress"), progress.SerializeAsString(), kToken).status());
  return RawCall(channel, Path("TellNews"), news.SerializeAsString(), kToken).status();
}

absl::Status Attack(const std::string& address, const Target& target, Effort& effort) {
  KINORA_RETURN_IF_ERROR(CallAsStranger(address));
  {
    std::vector<FileDescriptor> silent;
    for (int i = 0; i < kSilent; ++i) {
      silent.push_back(ConnectTo(address));
      if (silent.back().ok()) ++effort.connections;
    }
    KINORA_RETURN_IF_ERROR(target.Serves());  // while they hold the port
  }
  Flood(address, effort);
  KINORA_RETURN_IF_ERROR(target.Serves());
  return SendNonsense(address, effort);
}

int Run() {
  const SharedTarget shared;
  const TemporaryDirectory directory;
  const std::string tokens = directory.File("peer_tokens");
  std::ofstream(tokens) << "the token of the frontends\n";
  KINORA_CHECK_EQ(chmod(tokens.c_str(), 0600), 0);
  const std::string address = absl::StrCat("127.0.0.1:", FreePort());
  std::vector<std::string> flags = shared.flags;
  flags.push_back(absl::StrCat("--peer-address=", address));
  flags.push_back(absl::StrCat("--peer-token-file=", tokens));
  return RunAttack({.name = "peer_port",
                    .flags = flags,
                    .most_growth_bytes = 256 << 20,
                    .attack = [&](const Target& target, Effort& effort) { return Attack(address, target, effort); }});
}

}  // namespace
}  // namespace kinora

int main() { return kinora::Run(); }
