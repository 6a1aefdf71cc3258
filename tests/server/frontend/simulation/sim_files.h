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
  absl::StatusOr<std::unique_ptr<ArtifactReader>> Open(std::string_view key) override {
    const std::string* const content = Find(std::string(key));
    if (content == nullptr) return absl::NotFoundError("no such file");
    return std::make_unique<Reader>(*content);
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
  class Reader : public ArtifactReader {
   public:
    explicit Reader(std::string content) : content_(std::move(content)) {}
    int64_t size() const override { return static_cast<int64_t>(content_.size()); }
    absl::StatusOr<std::string> Read(int64_t offset, int64_t limit) override { return content_.substr(offset, limit); }

   private:
    const std::string content_;
  };

  std::map<std::string, std::string> files_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_FILES_H_
