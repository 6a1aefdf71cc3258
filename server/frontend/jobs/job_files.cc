#include "server/frontend/jobs/job_files.h"

#include <cstdint>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kinora {

std::string ArtifactKey(const v1::Video& video, const v1::Artifact& artifact) {
  return absl::StrCat(video.id(), "/", video.attempt(), "/", artifact.id());
}

std::vector<std::string> UnusedFiles(const v1::Video& video, const std::optional<v1::ResumeMark>& resume,
                                     std::vector<std::string> keys) {
  const bool runs = video.state() == v1::Video::RUNNING || video.state() == v1::Video::FINALIZING;
  const int32_t last_ended = runs ? video.attempt() - 1 : video.attempt();
  std::set<std::string> named;
  for (const v1::Artifact& artifact : video.artifacts()) named.insert(ArtifactKey(video, artifact));
  if (resume) named.insert(absl::StrCat(video.id(), "/", resume->attempt(), "/", resume->point().id()));
  std::erase_if(keys, [&](const std::string& key) {
    const std::vector<std::string> parts = absl::StrSplit(key, '/');
    int32_t attempt = 0;
    const bool ended = parts.size() > 2 && absl::SimpleAtoi(parts[1], &attempt) && attempt <= last_ended;
    return !ended || named.contains(key);
  });
  return keys;
}

}  // namespace kinora
