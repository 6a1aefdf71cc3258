#include "engine/media/threaded_sink.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {

ThreadedSink::~ThreadedSink() {
  {
    absl::MutexLock lock(&mu_);
    calls_.clear();
  }
  Join();
}

absl::Status ThreadedSink::Begin(const ClipInfo& info) {
  KINORA_RETURN_IF_ERROR(sink_->Begin(info));
  room_ = std::min(kMostFrames * info.height * info.width * 3, most_bytes_);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

absl::Status ThreadedSink::Add(int64_t first, const Tensor& value) {
  KINORA_CHECK(thread_.joinable()) << "before Begin or after End";
  KINORA_RETURN_IF_ERROR(Reserve(value.bytes()));
  Call call{.first = first, .dtype = value.dtype(), .shape = value.shape()};
  call.bytes = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(value.bytes()));
  std::memcpy(call.bytes.get(), value.raw(), static_cast<size_t>(value.bytes()));
  absl::MutexLock lock(&mu_);
  if (failure_.ok()) calls_.push_back(std::move(call));
  return failure_;
}

// Waits for room for a copy.
absl::Status ThreadedSink::Reserve(int64_t bytes) {
  const auto room = [this, bytes] {
    mu_.AssertHeld();
    return !failure_.ok() || held_ == 0 || held_ + bytes <= room_;
  };
  absl::MutexLock lock(&mu_, absl::Condition(&room));
  held_ += bytes;
  return failure_;
}

// Waits for a call; returns false after the last.
bool ThreadedSink::Next(Call& call) {
  const auto called = [this] {
    mu_.AssertHeld();
    return last_ || !calls_.empty();
  };
  absl::MutexLock lock(&mu_, absl::Condition(&called));
  if (calls_.empty()) return false;
  call = std::move(calls_.front());
  calls_.pop_front();
  return true;
}

absl::Status ThreadedSink::Pass(const Call& call) {
  try {
    return call.first == kSound ? sink_->Audio(call.View()) : sink_->Frames(call.first, call.View());
  } catch (const std::bad_alloc&) {  // would end the process
    return absl::ResourceExhaustedError("out of memory while writing the clip");
  }
}

void ThreadedSink::Run() {
  for (Call call; Next(call);) {
    const absl::Status status = Pass(call);
    const int64_t bytes = call.View().bytes();
    call = {};
    absl::MutexLock lock(&mu_);
    held_ -= bytes;
    if (status.ok()) continue;
    failure_ = status;
    calls_.clear();
    return;
  }
}

void ThreadedSink::Join() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mu_);
    last_ = true;
  }
  thread_.join();
}

absl::Status ThreadedSink::Failure() const {
  absl::MutexLock lock(&mu_);
  return failure_;
}

absl::Status ThreadedSink::End() {
  Join();
  KINORA_RETURN_IF_ERROR(Failure());
  return sink_->End();
}

}  // namespace kinora
