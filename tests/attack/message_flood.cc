// Clients without a token announce messages of 4 MiB, as many as a connection allows, and send nearly all of each.
#include <memory>
#include <thread>
#include <vector>

#include "tests/attack/attack.h"
#include "tests/testing/http2_flood.h"

namespace kinora {
namespace {

constexpr int kConnections = 8, kStreams = 250;
constexpr int64_t kAnnounced = 4 << 20, kSent = 4'000'000;

absl::Status Flood(const Target& target, Effort& effort) {
  std::vector<std::unique_ptr<Http2Flood>> floods(kConnections);
  std::vector<std::thread> threads;
  for (std::unique_ptr<Http2Flood>& flood : floods) {
    flood = std::make_unique<Http2Flood>(target.address());
    ++effort.connections;
    threads.emplace_back([&flood] {
      flood->Run({.method = "/kinora.v1.VideoGeneration/CreateVideo",
                  .authorization = "",
                  .streams = kStreams,
                  .announced_bytes = kAnnounced,
                  .sent_bytes = kSent,
                  .give_up = absl::Seconds(15)});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Http2Flood>& flood : floods) effort.bytes += flood->bytes_sent();
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunAttack(
      {.name = "message_flood", .flags = {}, .most_growth_bytes = 600 << 20, .attack = kinora::Flood});
}
