#include "tests/testing/s3_server.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

constexpr absl::Duration kStart = absl::Minutes(2);  // moto takes two seconds on an idle machine
constexpr char kScript[] = KINORA_SOURCE_DIR "/tests/server/s3/s3_server.py";

AwsKeys KeysIn(const nlohmann::json& json) { return {.id = json["id"], .secret = json["secret"]}; }

// The server's line on standard error, once it has come.
nlohmann::json LineOf(const std::string& err) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(err, '\n'))) {
    if (line.rfind("{\"moto\"", 0) == 0) return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  return nullptr;
}

}  // namespace

bool S3Server::IsInstalled() {
  static const bool installed = RunProcess({"/usr/bin/env", "python3", kScript, "--check"}).exit_status == 0;
  KINORA_CHECK(installed || std::getenv("KINORA_MUST_RUN") == nullptr) << "moto is missing: scripts/install-deps";
  return installed;
}

S3Server& S3Server::Shared() {
  static S3Server server;
  return server;
}

S3Server::S3Server()
    : process_(std::make_unique<Subprocess>(std::vector<std::string>{"/usr/bin/env", "python3", kScript})) {
  const absl::Time deadline = absl::Now() + kStart;
  nlohmann::json line = LineOf(process_->ErrSoFar());
  while (!line.is_object()) {
    KINORA_CHECK(absl::Now() < deadline) << process_->ErrSoFar();
    absl::SleepFor(absl::Milliseconds(20));
    line = LineOf(process_->ErrSoFar());
  }
  proxy_port_ = line["proxy"];
  keys_ = KeysIn(line["keys"]);
  denied_ = KeysIn(line["denied"]);
}

std::string S3Server::endpoint() const { return absl::StrCat("http://127.0.0.1:", proxy_port_); }

S3Options S3Server::NewPlace() {
  return {.url = absl::StrCat("s3://clips/place-", ++places_, "/artifacts"),
          .endpoint = endpoint(),
          .region = "eu-central-1",
          .path_style = true};
}

std::string S3Server::Ask(const std::string& method, const std::string& page, const std::string& body) {
  HttpRequest request{.method = method, .url = absl::StrCat(endpoint(), "/-/", page), .most_reply_bytes = 64 << 20};
  request.body.bytes = body;
  const auto reply = http_.Send(request);
  KINORA_CHECK(reply.ok() && reply->status == 200) << reply.status();
  return reply->body;
}

void S3Server::SetFaults(const std::string& json) { Ask("POST", "faults", json); }

int S3Server::CountRequests(const std::string& pattern) {
  const nlohmann::json requests = nlohmann::json::parse(Ask("GET", "requests", ""));
  const std::regex matches(pattern);
  return static_cast<int>(std::count_if(requests.begin(), requests.end(), [&](const nlohmann::json& line) {
    return std::regex_search(line.get<std::string>(), matches);
  }));
}

}  // namespace kinora
