#include "engine/ops/cuda/cuda_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_views.h"
#include "kernels/copy_rows.h"

namespace kinora {
namespace {

template <typename T>
void AddOnce(const std::shared_ptr<T>& one, std::vector<std::weak_ptr<T>>& all) {
  std::erase_if(all, [](const auto& each) { return each.expired(); });
  const auto same = [&](const auto& each) { return each.lock() == one; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back(one);
}

}  // namespace

class CudaGraph : public Graph {
 public:
  CudaGraph(CudaStream& stream, cudaGraphExec_t graph, std::vector<std::function<void()>> at_each_run,
            std::set<std::shared_ptr<const void>> needs)
      : stream_(stream),
        graph_(graph),
        at_each_run_(std::move(at_each_run)),
        needs_(std::make_shared<const std::set<std::shared_ptr<const void>>>(std::move(needs))) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  void Replay() override {
    stream_.FailIfInterrupted();
    stream_.Enqueue("a graph", Tensor(), [this](cudaStream_t stream) {
      for (const auto& call : at_each_run_) call();
      stream_.Keep(needs_);  // the graph may be destroyed before its work is done
      return cudaGraphLaunch(graph_, stream);
    });
  }

 private:
  CudaStream& stream_;
  const cudaGraphExec_t graph_;
  const std::vector<std::function<void()>> at_each_run_;
  const std::shared_ptr<const std::set<std::shared_ptr<const void>>> needs_;
};

void Interruption::Set(absl::Status why) {
  const std::lock_guard lock(mu_);
  if (set()) return;
  why_ = std::move(why);
  set_.store(true, std::memory_order_release);
}

absl::Status Interruption::status() const {
  const std::lock_guard lock(mu_);
  return why_;
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create() {
  std::unique_ptr<CudaStream> s(new CudaStream);
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&s->stream_, cudaStreamNonBlocking), "a stream"));
  const auto create = [](auto& events, unsigned flags = cudaEventDisableTiming) {
    cudaError_t error = cudaSuccess;
    for (cudaEvent_t& event : events) {
      if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, flags);
    }
    return CudaStatus(error, "an event");
  };
  KINORA_RETURN_IF_ERROR(create(s->staging_.left));
  KINORA_RETURN_IF_ERROR(create(s->marks_, cudaEventDefault));
  KINORA_RETURN_IF_ERROR(create(s->begins_, cudaEventDefault));
  KINORA_RETURN_IF_ERROR(create(s->passed_));
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaHostAlloc(&s->staging_.memory, kStagingBytes, cudaHostAllocDefault),
                                    "pinned memory for copies from the host"));
  return s;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);  // errors no longer matter
  if (staging_.memory != nullptr) cudaFreeHost(staging_.memory);
  const auto destroy = [](const auto& events) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  };
  destroy(staging_.left);
  destroy(marks_);
  destroy(begins_);
  destroy(passed_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void CudaStream::Note(const char* op, const Tensor& x, cudaError_t error) {
  if (error != cudaSuccess) Note(op, x, CudaStatus(error, "CUDA"));
}

void CudaStream::Note(const char* op, const Tensor& x, const absl::Status& status) {
  if (status.ok()) return;
  const std::string of =
      x.defined() ? absl::StrCat(" of ", std::string(DTypeName(x.dtype())), " ", x.shape().ToString()) : "";
  Fail(absl::Status(status.code(), absl::StrCat(op, of, ": ", std::string(status.message()))));
}

void CudaStream::NoteWork(const char* op, const Tensor& x) {
  if (failure_.ok()) Note(op, x, cudaStreamSynchronize(stream_));
}

void CudaStream::Copy(const Tensor& from, Tensor to) {
  KINORA_CHECK(from.elements() == to.elements()) << from.shape().ToString() << " to " << to.shape().ToString();
  if (from.elements() == 0) return;
  if (from.contiguous() && to.contiguous() && from.dtype() == to.dtype()) {
    Enqueue("Copy", from, [&](cudaStream_t stream) {
      return cudaMemcpyAsync(to.raw(), from.raw(), from.bytes(), cudaMemcpyDeviceToDevice, stream);
    });
    return;
  }
  if (from.width() != to.width()) {  // regrouping is free when both are contiguous
    KINORA_CHECK(from.contiguous() && to.contiguous()) << from.shape().ToString() << " to " << to.shape().ToString();
    CudaStream::Copy(from.Reshape({from.elements()}), to.Reshape({to.elements()}));
    return;
  }
  Enqueue("Copy", from, [&](cudaStream_t stream) {
    return kernels::LaunchCopyRows(WordView(from), WordView(to), from.rows(), from.width(), stream);
  });
}

void CudaStream::CopyFromHost(const void* host, Tensor to) {
  KINORA_CHECK(to.contiguous()) << to.shape().ToString();
  if (capturing_) Fail(absl::FailedPreconditionError("host memory read inside a capture"));
  Enqueue("CopyFromHost", to, [&](cudaStream_t) {
    return CopyStaged(static_cast<const char*>(host), static_cast<char*>(to.raw()), to.bytes());
  });
}

cudaError_t CudaStream::CopyStaged(const char* host, char* device, int64_t bytes) {
  constexpr int64_t kHalf = kStagingBytes / 2, kAlignment = 64;
  for (int64_t at = 0; at < bytes;) {
    if (staging_.used == kHalf) {  // continue in the other half once the copies from it are done
      if (const cudaError_t error = cudaEventRecord(staging_.left[staging_.half], stream_); error != cudaSuccess)
        return error;
      staging_.half ^= 1;
      staging_.used = 0;
      if (const cudaError_t error = cudaEventSynchronize(staging_.left[staging_.half]); error != cudaSuccess)
        return error;
    }
    const int64_t piece = std::min(bytes - at, kHalf - staging_.used);
    char* const pinned = static_cast<char*>(staging_.memory) + staging_.half * kHalf + staging_.used;
    std::memcpy(pinned, host + at, piece);
    if (const cudaError_t error = cudaMemcpyAsync(device + at, pinned, piece, cudaMemcpyHostToDevice, stream_);
        error != cudaSuccess)
      return error;
    staging_.used = std::min(kHalf, (staging_.used + piece + kAlignment - 1) / kAlignment * kAlignment);
    at += piece;
  }
  return cudaSuccess;
}

void CudaStream::CopyFromPinned(const void* host, Tensor to) {
  KINORA_CHECK(to.contiguous()) << to.shape().ToString();
  if (capturing_) Fail(absl::FailedPreconditionError("host memory read inside a capture"));
  Enqueue("CopyFromPinned", to, [&](cudaStream_t stream) {
    return cudaMemcpyAsync(to.raw(), host, to.bytes(), cudaMemcpyHostToDevice, stream);
  });
}

void CudaStream::CopyToHost(const Tensor& from, void* host) {
  KINORA_CHECK(from.contiguous()) << from.shape().ToString();
  if (capturing_) Fail(absl::FailedPreconditionError("host memory written inside a capture"));
  if (from.bytes() == 0) return;
  Enqueue("CopyToHost", from, [&](cudaStream_t stream) {
    return cudaMemcpyAsync(host, from.raw(), from.bytes(), cudaMemcpyDeviceToHost, stream);
  });
}

Tensor CudaStream::HostSide(const Tensor& device, ArenaScope& host) const {
  KINORA_CHECK(device.contiguous()) << device.shape().ToString();
  return host.Alloc(device.dtype(), device.shape());
}

absl::StatusOr<std::unique_ptr<Graph>> CudaStream::Capture(std::function<void()> body) {
  if (capturing()) {
    Fail(absl::FailedPreconditionError("a capture is already in progress on this stream"));
    return failure_;
  }
  if (!failure_.ok()) return failure_;  // from earlier work
  KINORA_RETURN_IF_ERROR(
      CudaStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "the begin of a capture"));
  capturing_ = true;
  body();
  capturing_ = false;
  std::vector<std::function<void()>> at_each_run = std::exchange(at_each_run_, {});
  std::set<std::shared_ptr<const void>> needs = std::exchange(captured_, {});
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  cudaGraphExec_t executable = nullptr;
  absl::Status status = std::exchange(failure_, absl::OkStatus());
  if (status.ok()) status = CudaStatus(ended, "the end of a capture");
  if (status.ok()) status = CudaStatus(cudaGraphInstantiate(&executable, graph, 0), "a captured graph");
  // The first launch would do this, and could then fail for lack of memory.
  if (status.ok()) status = CudaStatus(cudaGraphUpload(executable, stream_), "a captured graph");
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (status.ok()) return std::make_unique<CudaGraph>(*this, executable, std::move(at_each_run), std::move(needs));
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  cudaGetLastError();  // clears an error that ends only the capture
  return status;
}

absl::Status CudaStream::Synchronize() {
  if (capturing_) {
    Fail(absl::FailedPreconditionError("Synchronize inside a capture"));
    return failure_;
  }
  const cudaError_t error = cudaStreamSynchronize(stream_);
  if (error != cudaSuccess) Fail(CudaStatus(error, "enqueued work"));
  if (error == cudaSuccess) kept_.clear();
  FailIfInterrupted();
  TellReached();
  return std::exchange(failure_, absl::OkStatus());
}

void CudaStream::BeginTurn(bool resumes) {
  const int64_t place = next_mark_ % kMarks;
  resumes_[place] = resumes;
  if (resumes)
    Enqueue("BeginTurn", Tensor(), [&](cudaStream_t stream) { return cudaEventRecord(begins_[place], stream); });
}

// Adds the idle time before the turn that `mark` ended, which is done.
void CudaStream::CountIdleBefore(int64_t mark) {
  if (!std::exchange(resumes_[mark % kMarks], false)) return;
  float milliseconds = 0;
  const cudaError_t error = cudaEventElapsedTime(&milliseconds, marks_[(mark - 1) % kMarks], begins_[mark % kMarks]);
  if (error != cudaSuccess) return Fail(CudaStatus(error, "the time between two turns"));
  idle_seconds_ += milliseconds / 1e3;
}

int64_t CudaStream::Mark() {
  Enqueue("Mark", Tensor(),
          [this](cudaStream_t stream) { return cudaEventRecord(marks_[next_mark_ % kMarks], stream); });
  resumes_[++next_mark_ % kMarks] = false;  // left by a turn that was never waited for
  return next_mark_ - 1;
}

// Polls instead of calling cudaEventSynchronize: later work continues, the waiting thread uses no CPU time, and a lost
// device ends the wait.
absl::Status CudaStream::WaitFor(int64_t mark) {
  KINORA_CHECK(mark < next_mark_ && mark >= next_mark_ - kMarks) << mark << " of " << next_mark_;
  constexpr auto kLook = std::chrono::microseconds(50);  // the awaited work takes milliseconds
  while (failure_.ok()) {
    const cudaError_t reached = cudaEventQuery(marks_[mark % kMarks]);
    if (reached == cudaSuccess) {
      CountIdleBefore(mark);
      ReleaseUpTo(mark);
      break;
    }
    if (reached != cudaErrorNotReady) {
      Fail(CudaStatus(reached, "enqueued work"));
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
  FailIfInterrupted();
  TellReached();
  return failure_;
}

cudaError_t CudaStream::ComeAfter(const CudaStream& other) {
  const cudaError_t error = cudaEventRecord(other.passed_[0], other.stream_);
  return error != cudaSuccess ? error : cudaStreamWaitEvent(stream_, other.passed_[0], 0);
}

void CudaStream::Keep(std::shared_ptr<const void> object) {
  if (capturing_) {
    captured_.insert(std::move(object));
  } else {
    kept_[std::move(object)] = next_mark_;
  }
}

void CudaStream::ReleaseUpTo(int64_t mark) {
  std::erase_if(kept_, [&](const auto& each) { return each.second <= mark; });
}

void CudaStream::Fork(Stream& branch) {
  auto& b = static_cast<CudaStream&>(branch);
  b.capturing_ = capturing_;
  b.forked_ = true;
  b.failure_ = failure_;  // so that nothing is enqueued outside of the capture
  b.Enqueue("Fork", Tensor(), [&](cudaStream_t) { return b.ComeAfter(*this); });
}

void CudaStream::Join(Stream& branch) {
  auto& b = static_cast<CudaStream&>(branch);
  b.capturing_ = b.forked_ = false;
  captured_.merge(std::exchange(b.captured_, {}));
  for (const auto& [object, mark] : std::exchange(b.kept_, {})) Keep(object);
  if (absl::Status failure = std::exchange(b.failure_, absl::OkStatus()); !failure.ok()) Fail(std::move(failure));
  // Also after a failure: a capture can end only after its branches have joined.
  Note("Join", Tensor(), ComeAfter(b));
}

void CudaStream::Heed(const std::shared_ptr<const Interruption>& interruption) {
  AddOnce(interruption, interruptions_);
}

void CudaStream::Tell(const std::shared_ptr<WaitListener>& listener) { AddOnce(listener, listeners_); }

void CudaStream::TellReached() {
  if (!failure_.ok()) return;
  for (const auto& each : listeners_) {
    if (const auto listener = each.lock()) listener->OnReached();
  }
}

void CudaStream::FailIfInterrupted() {
  for (const auto& each : interruptions_) {
    const std::shared_ptr<const Interruption> interruption = each.lock();
    if (interruption != nullptr && interruption->set()) Fail(interruption->status());
  }
}

void CudaStream::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

}  // namespace kinora
