#include "server/worker/lora_watch.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/lora_values.h"
#include "server/request/model_conversion.h"

namespace kinora {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

std::set<std::string> IdsOf(const Loras& loras) {
  std::set<std::string> ids = {std::string(kDistilledLora)};
  for (const auto& [id, lora] : loras) ids.insert(id);
  return ids;
}

// Between two calls of go_on while Seek waits for its Turn.
constexpr absl::Duration kBetweenWords = absl::Milliseconds(500);

constexpr auto kAlways = [] { return absl::OkStatus(); };

}  // namespace

class LoraWatch::Turn {
 public:
  explicit Turn(LoraWatch& watch) : watch_(watch) {
    const auto free = [&watch] {
      watch.turn_mu_.AssertHeld();
      return !watch.taken_ && watch.seeking_ == 0;
    };
    absl::MutexLock lock(&watch.turn_mu_, absl::Condition(&free));
    watch.taken_ = true;
  }
  // For Seek: has priority over other threads. Gives up with the error if go_on fails.
  Turn(LoraWatch& watch, absl::FunctionRef<absl::Status()> go_on) : watch_(watch) {
    const auto free = [&watch] {
      watch.turn_mu_.AssertHeld();
      return !watch.taken_;
    };
    absl::MutexLock lock(&watch.turn_mu_);
    ++watch.seeking_;
    while (status_.ok() && !watch.turn_mu_.AwaitWithTimeout(absl::Condition(&free), kBetweenWords)) status_ = go_on();
    --watch.seeking_;
    if (status_.ok()) watch.taken_ = true;
  }
  ~Turn() {
    if (!status_.ok()) return;
    absl::MutexLock lock(&watch_.turn_mu_);
    watch_.taken_ = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  LoraWatch& watch_;
  absl::Status status_;
};

LoraWatch::LoraWatch(Pipeline& pipeline, std::shared_ptr<FactorCache> cache, const std::string& folder,
                     WorkerMetrics& metrics)
    : pipeline_(pipeline), metrics_(metrics), cache_(std::move(cache)), given_(pipeline.loras()) {
  if (folder.empty()) return;
  folder_.emplace(
      folder,
      [&pipeline](std::shared_ptr<const SafetensorsFile> file) { return pipeline.OpenLora(std::move(file), {}); },
      IdsOf(given_));
  LookOnce();  // a file is listed at the second scan at the earliest
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

absl::Status LoraWatch::CheckGiven(const Loras& loras) {
  for (const auto& [id, lora] : loras) {
    const absl::Status status = CheckLoraValues(*lora, kAlways);
    if (!status.ok()) return {status.code(), Cat("lora ", id, ": ", status.message())};
  }
  return absl::OkStatus();
}

void LoraWatch::SetDigests(const ModelDigests::Map& known) {
  const Turn turn(*this);
  for (auto& [id, lora] : given_) {
    const auto digest = known.find(absl::StrCat(kLoraDigest, id));
    if (digest != known.end()) lora = lora->WithDigest(digest->second);
  }
  Publish();
}

void LoraWatch::Publish() {
  Loras all = given_;
  if (folder_) all.merge(folder_->loras());
  pipeline_.SetLoras(std::move(all));
}

// Notifies the listener of each change before reading the next file.
void LoraWatch::LookOnce() {
  const auto step = [this](absl::FunctionRef<bool()> look) {
    bool more = false;
    bool changed = false;
    {
      const Turn turn(*this);
      changed = look();
      more = folder_->more();
      if (changed) Publish();
    }
    if (changed) Tell();
    return more;
  };
  bool more = step([this] { return folder_->Begin(); });
  while (more) more = step([this] { return folder_->Next(kAlways); });
  const Turn turn(*this);
  for (const auto& [state, files] : {std::pair{"listed", folder_->listed()},
                                     {"refused", folder_->refused().size()},
                                     {"awaited", folder_->awaited()}}) {
    metrics_.lora_files.Add({{"state", state}}).Set(static_cast<double>(files));
  }
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
  const CleanMemory clean = pipeline_.clean_weights();
  metrics_.clean_weight_bytes.Add({{"memory", "device"}}).Set(static_cast<double>(clean.device_bytes));
  metrics_.clean_weight_bytes.Add({{"memory", "host"}}).Set(static_cast<double>(clean.host_bytes));
}

void LoraWatch::Describe(v1::ModelInfo& model) const {
  model.clear_loras();
  for (const auto& [id, lora] : pipeline_.loras()) {
    if (id == kDistilledLora) continue;
    model.add_loras(id);
    if (!lora->digest().empty()) (*model.mutable_digests())[absl::StrCat(kLoraDigest, id)] = lora->digest();
  }
}

absl::Status LoraWatch::Seek(const v1::Generation& asked, absl::FunctionRef<absl::Status()> go_on) {
  if (!folder_) return absl::OkStatus();
  for (const v1::LoraRef& ref : asked.loras()) {
    const Loras known = pipeline_.loras();
    const auto found = known.find(ref.id());
    const std::string digest = found == known.end() ? "none" : found->second->digest();
    if (found != known.end() && (ref.digest().empty() || digest.empty() || digest == ref.digest())) continue;
    bool changed = false;
    {
      const Turn turn(*this, go_on);
      KINORA_RETURN_IF_ERROR(turn.status());
      changed = folder_->LookAt(ref.id(), go_on);
      if (changed) Publish();
    }
    if (changed) Tell();
    KINORA_RETURN_IF_ERROR(go_on());
  }
  return absl::OkStatus();
}

}  // namespace kinora
