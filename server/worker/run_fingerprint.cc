#include "server/worker/run_fingerprint.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/cpu_path.h"
#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "engine/weights/lora.h"
#include "server/common/build_version.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

// Equal for equal messages of one build. Leaves out the digests of LoRAs, which are parts of their own.
std::string DigestOf(v1::Generation generation) {
  for (v1::LoraRef& lora : *generation.mutable_loras()) lora.clear_digest();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    generation.SerializeToCodedStream(&coded);
  }
  return absl::StrCat("sha256:", Sha256Hex(bytes));
}

void AddLoras(const StagePlan& stage, double full_distilled_strength, RunFingerprint& fingerprint) {
  for (const AppliedLora& applied : stage.loras) {
    const double full = applied.id == kDistilledLora ? full_distilled_strength : 1;
    std::string text = absl::StrCat("at strength ", applied.strength * full);
    if (applied.lora != nullptr && !applied.lora->digest().empty()) {
      text = absl::StrCat(applied.lora->digest(), " ", text);
    }
    fingerprint[absl::StrCat("LoRA ", applied.id, " of ", std::string(stage.stage().name()))] = text;
  }
}

}  // namespace

RunFingerprint FingerprintOf(const PreparedRun& run, const FingerprintedWorker& worker) {
  const v1::Ready& ready = worker.ready;
  RunFingerprint fingerprint = {
      {"request", DigestOf(run.generation)},
      {"build", absl::StrCat(kBuildVersion, " of commit ", ThisBuild().commit)},
      {"mesh", ready.mesh().empty() ? "none" : ready.mesh()},
      {"device", worker.machine},
      {"precision", ready.precision()},
      {"tile plan", run.plan.tiles.ToString()},
      {"decoder border", ready.decoder_border()},
  };
  for (const auto& [name, digest] : ready.model().digests()) {
    if (!absl::StartsWith(name, "lora/")) fingerprint[absl::StrCat("file ", name)] = digest;
  }
  for (const StagePlan& stage : run.plan.stages) AddLoras(stage, worker.full_distilled_strength, fingerprint);
  return fingerprint;
}

absl::StatusOr<std::string> MachineOf(const std::string& device, const CudaFlags& cuda) {
  if (device == "cpu") return absl::StrCat("cpu (", CpuPathName(ThisCpuPath()), ")");
  KINORA_ASSIGN_OR_RETURN(std::string name, DeviceName(device, {}));
  KINORA_ASSIGN_OR_RETURN(const CudaSwitches on, ReadCudaSwitches(cuda));
  if (!on.cudnn) absl::StrAppend(&name, " without cuDNN");
  if (!on.tuning) absl::StrAppend(&name, " without tuning");
  return name;
}

std::string JoinMachines(const std::vector<std::string>& of_ranks) {
  const std::set<std::string> different(of_ranks.begin(), of_ranks.end());
  return different.size() == 1 ? of_ranks[0] : absl::StrJoin(of_ranks, ", ");
}

std::string WhatChanged(const RunFingerprint& then, const RunFingerprint& now) {
  constexpr size_t kMostNamed = 3;
  std::set<std::string> parts;
  for (const auto& [part, text] : then) parts.insert(part);
  for (const auto& [part, text] : now) parts.insert(part);
  std::vector<std::string> changes;
  for (const std::string& part : parts) {
    const auto text = [&](const RunFingerprint& of) {
      const auto found = of.find(part);
      return found == of.end() || found->second.empty() ? "none" : found->second;
    };
    if (text(then) != text(now)) {
      changes.push_back(absl::StrCat("the ", part, " was ", text(then), " and is ", text(now), " now"));
    }
  }
  const size_t more = changes.size() > kMostNamed ? changes.size() - kMostNamed : 0;
  changes.resize(changes.size() - more);
  return absl::StrCat(absl::StrJoin(changes, "; "), more > 0 ? absl::StrCat("; and ", more, " more") : "");
}

}  // namespace kinora
