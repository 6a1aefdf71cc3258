#include "tests/e2e/two_hosts.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "tests/e2e/process.h"

namespace kinora {
namespace {

std::string FindIp() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

absl::Status RunIp(const std::string& ip, const std::string& arguments) {
  std::vector<std::string> command = {ip};
  for (const absl::string_view word : absl::StrSplit(arguments, ' ')) command.emplace_back(word);
  const Result result = RunToEnd(command);
  if (result.status == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("ip ", arguments, ": ", result.err));
}

}  // namespace

TwoHosts::TwoHosts() : ip_(FindIp()) {}

absl::StatusOr<std::unique_ptr<TwoHosts>> TwoHosts::Make() {
  auto hosts = std::unique_ptr<TwoHosts>(new TwoHosts);
  if (hosts->ip_.empty()) return absl::FailedPreconditionError("there is no program ip (iproute2)");
  KINORA_RETURN_IF_ERROR(hosts->Connect());
  return hosts;
}

absl::Status TwoHosts::Connect() const {
  for (const int host : {0, 1}) {
    KINORA_RETURN_IF_ERROR(RunIp(ip_, absl::StrCat("netns add ", Name(host))));
    KINORA_RETURN_IF_ERROR(RunIp(ip_, absl::StrCat("-n ", Name(host), " link set lo up")));
  }
  for (const auto& [cable, network] : {std::pair{"control", "10.83.1."}, std::pair{"data", "10.83.2."}}) {
    KINORA_RETURN_IF_ERROR(RunIp(ip_, absl::StrCat("link add name ", cable, " netns ", Name(0), " type veth peer name ",
                                                   cable, " netns ", Name(1))));
    for (const int host : {0, 1}) {
      KINORA_RETURN_IF_ERROR(
          RunIp(ip_, absl::StrCat("-n ", Name(host), " address add ", network, host + 1, "/24 dev ", cable)));
      KINORA_RETURN_IF_ERROR(RunIp(ip_, absl::StrCat("-n ", Name(host), " link set ", cable, " up")));
    }
  }
  return absl::OkStatus();
}

TwoHosts::~TwoHosts() {
  for (const int host : {0, 1}) {
    if (!ip_.empty()) RunIp(ip_, absl::StrCat("netns delete ", Name(host))).IgnoreError();  // and its cables
  }
}

std::string TwoHosts::Name(int host) const { return absl::StrCat("kinora-", getpid(), "-", host); }

std::vector<std::string> TwoHosts::On(int host, const std::vector<std::string>& command) const {
  std::vector<std::string> all = {ip_, "netns", "exec", Name(host)};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

void TwoHosts::SetLink(const std::string& interface, bool up) const {
  const absl::Status status = RunIp(ip_, absl::StrCat("-n ", Name(1), " link set ", interface, up ? " up" : " down"));
  KINORA_CHECK(status.ok()) << status;
}

}  // namespace kinora
