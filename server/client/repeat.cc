#include "server/client/repeat.h"

#include <google/protobuf/util/message_differencer.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/artifact_names.h"

namespace kinora {
namespace {

using google::protobuf::util::MessageDifferencer;

// Adds a line for each file that only one of the two used, or whose content changed.
void CompareDigests(const v1::Resolved& earlier, const v1::Resolved& now, std::vector<std::string>& out) {
  std::set<std::string> names;
  for (const auto& [name, digest] : earlier.digests()) names.insert(name);
  for (const auto& [name, digest] : now.digests()) names.insert(name);
  for (const std::string& name : names) {
    const auto before = earlier.digests().find(name), after = now.digests().find(name);
    if (before == earlier.digests().end()) {
      out.push_back(absl::StrCat(name, " is new"));
    } else if (after == now.digests().end()) {
      out.push_back(absl::StrCat(name, " is gone"));
    } else if (before->second != after->second) {
      out.push_back(absl::StrCat(name, " has changed"));
    }
  }
}

std::map<std::string, std::string> BytesOf(const v1::Video& video) {
  std::map<std::string, std::string> out;
  for (const v1::Artifact& artifact : video.artifacts()) {
    const bool beside = artifact.id() == kTraceArtifact || artifact.id() == kThumbnailArtifact;
    if (!beside) out[artifact.id()] = artifact.sha256();
  }
  return out;
}

}  // namespace

v1::CreateVideoRequest RequestOf(const v1::Video& earlier) {
  v1::CreateVideoRequest request;
  request.set_model(earlier.model());
  *request.mutable_generation() = earlier.effective();
  // The files may have changed, as the model's may; DifferencesOf reports that.
  for (v1::LoraRef& lora : *request.mutable_generation()->mutable_loras()) lora.clear_digest();
  *request.mutable_output() = earlier.output();
  request.mutable_output()->clear_ttl();
  request.mutable_output()->clear_trace();
  request.mutable_output()->clear_thumbnail();
  return request;
}

std::vector<std::string> DifferencesOf(const v1::Video& earlier, const v1::Video& now) {
  std::vector<std::string> out;
  const auto compare = [&out](const char* what, const std::string& before, const std::string& after) {
    const auto named = [](const std::string& value) { return value.empty() ? "none" : value; };
    if (before != after) out.push_back(absl::StrCat(what, " ", named(after), " instead of ", named(before)));
  };
  const v1::Resolved &before = earlier.resolved(), &after = now.resolved();
  compare("model", earlier.model(), now.model());
  compare("build", before.build(), after.build());
  compare("device", before.device(), after.device());
  compare("precision", before.precision(), after.precision());
  compare("mesh", before.mesh(), after.mesh());
  compare("tiles", before.tile_plan(), after.tile_plan());
  CompareDigests(before, after, out);
  bool stages = before.stages_size() == after.stages_size();
  for (int i = 0; stages && i < before.stages_size(); ++i) {
    stages = MessageDifferencer::Equals(before.stages(i), after.stages(i));
  }
  if (!stages) out.emplace_back("other stages, noise levels or LoRAs");
  if (!MessageDifferencer::Equals(RequestOf(earlier).generation(), RequestOf(now).generation())) {
    out.emplace_back("a different request");
  }
  if (!MessageDifferencer::Equals(RequestOf(earlier).output(), RequestOf(now).output())) {
    out.emplace_back("different output settings");
  }
  return out;
}

std::string DescribeRepetition(const v1::Video& earlier, const v1::Video& now) {
  if (BytesOf(earlier).empty()) return absl::StrCat("job ", earlier.id(), " has no clip to compare with this one");
  if (BytesOf(earlier) == BytesOf(now)) return absl::StrCat("identical to the clip of job ", earlier.id());
  const std::vector<std::string> differences = DifferencesOf(earlier, now);
  return absl::StrCat("differs from the clip of job ", earlier.id(), ": ",
                      differences.empty() ? "no recorded setting differs" : absl::StrJoin(differences, "; "));
}

}  // namespace kinora
