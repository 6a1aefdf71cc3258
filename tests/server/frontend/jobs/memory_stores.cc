#include "tests/server/frontend/jobs/memory_stores.h"

#include <utility>

namespace kinora {

void MemoryCatalogueStore::PutModel(const v1::ModelInfo& model, Finished done) {
  executor_.Post([this, model, done = std::move(done)]() mutable {
    models_[model.id()] = model;
    done(absl::OkStatus());
  });
}

void MemoryCatalogueStore::Models(Done<std::vector<v1::ModelInfo>> done) {
  executor_.Post([this, done = std::move(done)]() mutable {
    std::vector<v1::ModelInfo> models;
    for (const auto& [id, model] : models_) models.push_back(model);
    done(std::move(models));
  });
}

void MemoryCatalogueStore::AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) {
  executor_.Post([this, place, run, done = std::move(done)]() mutable {
    auto& runs = *speeds_[place].mutable_runs();
    *runs.Add() = run;
    if (runs.size() > kSpeedsKept) runs.DeleteSubrange(0, runs.size() - kSpeedsKept);
    done(absl::OkStatus());
  });
}

void MemoryCatalogueStore::Speeds(const std::string& place, Done<v1::SpeedHistory> done) {
  executor_.Post([this, place, done = std::move(done)]() mutable {
    const auto found = speeds_.find(place);
    done(found == speeds_.end() ? v1::SpeedHistory() : found->second);
  });
}

void MemoryInputRecords::PutInput(const InputRecord& input, Finished done) {
  executor_.Post([this, input, done = std::move(done)]() mutable {
    inputs_[input.sha256] = input;
    done(absl::OkStatus());
  });
}

void MemoryInputRecords::RemoveInput(const std::string& sha256, absl::Time now, Finished done) {
  executor_.Post([this, sha256, now, done = std::move(done)]() mutable {
    const auto found = inputs_.find(sha256);
    const bool stays = found != inputs_.end() && !found->second.media_type.empty() && found->second.expiry > now;
    if (!stays) inputs_.erase(sha256);
    done(stays ? absl::AbortedError("the input has not expired") : absl::OkStatus());
  });
}

void MemoryInputRecords::FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) {
  executor_.Post([this, keys = std::move(keys), done = std::move(done)]() mutable {
    std::vector<InputRecord> found;
    for (const std::string& key : keys) {
      if (const auto input = inputs_.find(key); input != inputs_.end()) found.push_back(input->second);
    }
    done(std::move(found));
  });
}

void MemoryInputRecords::Inputs(Done<std::vector<InputRecord>> done) {
  executor_.Post([this, done = std::move(done)]() mutable {
    std::vector<InputRecord> inputs;
    for (const auto& [sha256, input] : inputs_) inputs.push_back(input);
    done(std::move(inputs));
  });
}

}  // namespace kinora
