#include "server/worker/lora_watch.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "server/common/model_conversion.h"

namespace kinora {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

std::set<std::string> IdsOf(const Loras& loras) {
  std::set<std::string> ids = {std::string(kDistilledLora)};
  for (const auto& [id, lora] : loras) ids.insert(id);
  return ids;
}

}  // namespace

LoraWatch::LoraWatch(Pipeline& pipeline, std::shared_ptr<FactorCache> cache, const std::string& folder,
                     WorkerMetrics& metrics)
    : pipeline_(pipeline), metrics_(metrics), cache_(std::move(cache)), given_(pipeline.loras()) {
  if (folder.empty()) return;
  folder_.emplace(
      folder,
      [&pipeline](const std::string& path, LoraOptions options) { return pipeline.OpenLora(path, std::move(options)); },
      IdsOf(given_));
  LookOnce();  // a file counts from the second look at it on
  LookOnce();
  thread_ = std::thread([this] { Loop(); });
}

LoraWatch::~LoraWatch() {
  if (!thread_.joinable()) return;
  folder_->GiveUp();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void LoraWatch::SetDigests(const ModelDigests::Map& known) {
  absl::MutexLock lock(&look_mu_);
  for (auto& [id, lora] : given_) {
    const auto digest = known.find(absl::StrCat(kLoraDigest, id));
    if (digest != known.end()) lora = lora->WithDigest(digest->second);
  }
  Loras all = given_;
  if (folder_) all.merge(folder_->loras());
  pipeline_.SetLoras(std::move(all));
}

void LoraWatch::LookOnce() {
  bool changed = false;
  {
    absl::MutexLock lock(&look_mu_);
    changed = folder_->Look();
    for (const auto& [state, files] : {std::pair{"listed", folder_->listed()},
                                       {"refused", folder_->refused().size()},
                                       {"awaited", folder_->awaited()}}) {
      metrics_.lora_files.Add({{"state", state}}).Set(static_cast<double>(files));
    }
    if (changed) {
      Loras all = given_;
      all.merge(folder_->loras());
      pipeline_.SetLoras(std::move(all));
    }
  }
  if (changed) Tell();
}

void LoraWatch::Tell() {
  absl::MutexLock lock(&listener_mu_);
  if (listener_) listener_();
}

void LoraWatch::SetListener(std::function<void()> changed) {
  {
    absl::MutexLock lock(&listener_mu_);
    listener_ = std::move(changed);
  }
  if (folder_) Tell();
}

void LoraWatch::Loop() {
  Clock& clock = Clock::Steady();
  const auto stopping = [this] {
    mu_.AssertHeld();
    return stopping_;
  };
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (clock.AwaitUntil(mu_, absl::Condition(&stopping), clock.Now() + kBetweenLooks)) return;
    }
    LookOnce();
  }
}

void LoraWatch::CountSwaps(absl::Span<const StageUse> stages) {
  for (const StageUse& stage : stages) {
    if (stage.stage == kPutOnLoras) metrics_.lora_swap_seconds.Observe(stage.seconds);
  }
  const FactorCache::Counts now = cache_->counts();
  metrics_.lora_cache_hits_total.Increment(static_cast<double>(now.hits - counted_.hits));
  metrics_.lora_cache_misses_total.Increment(static_cast<double>(now.misses - counted_.misses));
  metrics_.lora_cache_bytes.Set(static_cast<double>(now.bytes));
  counted_ = now;
}

void LoraWatch::Describe(v1::ModelInfo& model) const {
  model.clear_loras();
  for (const auto& [id, lora] : pipeline_.loras()) {
    if (id == kDistilledLora) continue;
    model.add_loras(id);
    if (!lora->digest().empty()) (*model.mutable_digests())[absl::StrCat(kLoraDigest, id)] = lora->digest();
  }
}

void LoraWatch::Seek(const v1::Generation& asked) {
  if (!folder_) return;
  const Loras known = pipeline_.loras();
  for (const v1::LoraRef& ref : asked.loras()) {
    const auto found = known.find(ref.id());
    if (found != known.end() && (ref.digest().empty() || found->second->digest() == ref.digest())) continue;
    LookOnce();
    return LookOnce();
  }
}

}  // namespace kinora
