// The directory that frontends and workers share: what is in each file, by key.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FILES_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FILES_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/common/artifact_store.h"

namespace kinora::simulation {

class SimFiles : public ArtifactStore {
 public:
  void Put(const std::string& key, std::string content) { files_[key] = std::move(content); }
  // Null: there is none.
  const std::string* Find(const std::string& key) const {
    const auto found = files_.find(key);
    return found == files_.end() ? nullptr : &found->second;
  }

  absl::StatusOr<std::unique_ptr<StagedArtifact>> Begin(std::string_view) override {
    return absl::UnimplementedError("only workers write files here");
  }
  absl::StatusOr<int64_t> Size(std::string_view key) override {
    const std::string* const content = Find(std::string(key));
    if (content == nullptr) return absl::NotFoundError("no such file");
    return static_cast<int64_t>(content->size());
  }
  absl::StatusOr<ArtifactPiece> Read(std::string_view key, int64_t offset, int64_t limit) override {
    const std::string* const content = Find(std::string(key));
    if (content == nullptr) return absl::NotFoundError("no such file");
    return ArtifactPiece{.data = content->substr(offset, limit), .size = static_cast<int64_t>(content->size())};
  }
  int64_t piece_bytes() const override { return 1 << 20; }
  int lanes() const override { return 1; }
  absl::StatusOr<ArtifactLink> Link(std::string_view, const LinkRequest&) override {
    return absl::FailedPreconditionError("no links");
  }
  absl::StatusOr<std::vector<std::string>> Keys(std::string_view prefix) override {
    std::vector<std::string> keys;
    for (const auto& [key, content] : files_) {
      if (key.starts_with(absl::StrCat(std::string(prefix), "/"))) keys.push_back(key);
    }
    return keys;
  }
  absl::Status Delete(std::string_view prefix) override {
    const std::string whole(prefix);
    std::erase_if(files_, [&](const auto& file) {
      return file.first == whole || file.first.starts_with(absl::StrCat(whole, "/"));
    });
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> FirstParts() override {
    std::set<std::string> parts;
    for (const auto& [key, content] : files_) parts.insert(key.substr(0, key.find('/')));
    return std::vector<std::string>(parts.begin(), parts.end());
  }
  absl::Status CheckRoom(int64_t) override { return absl::OkStatus(); }

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FILES_H_
