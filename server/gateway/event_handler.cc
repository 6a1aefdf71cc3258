// GET /v1/videos/{id}/events: the events of a job as text/event-stream. The next event is read once the last one is
// sent: to a slow client the frontend sends the latest step and preview alone. While the gateway stops, a stream goes
// on only if its job has ended, to its last event: a frontend that drains waits for its jobs and then stops its
// gateway.
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "server/common/status_details.h"
#include "server/gateway/handlers.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  EventStream(RoutedRequest request, GatewayMetrics& metrics) : request_(std::move(request)), metrics_(metrics) {}
  ~EventStream() {
    if (begun_) metrics_.event_streams.Decrement();
  }

  void Begin(FrontendClient& frontend, int64_t after_sequence) {
    v1::WatchVideoRequest wanted;
    wanted.set_id(request_.id);
    wanted.set_after_sequence(after_sequence);
    frontend_ = &frontend;
    reader_ = frontend.WatchVideo(request_.caller, wanted);
    request_.exchange->SetOnLeft([reader = reader_] { reader->Cancel(); });
    request_.exchange->SetOnDrain([self = shared_from_this()] { self->EndUnlessTheJobHas(); });
    ReadNext();
  }

 private:
  using Event = absl::StatusOr<std::optional<v1::VideoEvent>>;

  void ReadNext() {
    reader_->Next([self = shared_from_this()](const Event& event) { self->OnEvent(event); });
  }

  void EndUnlessTheJobHas() {
    frontend_->GetVideo(request_.caller, request_.id,
                        [self = shared_from_this()](const absl::StatusOr<v1::Video>& video) {
                          if (video.ok() && HasEnded(*video)) return;
                          self->reader_->Cancel();
                          self->request_.exchange->End();
                        });
  }

  void OnEvent(const Event& event) {
    if (!event.ok() && !begun_) return request_.exchange->Reply(ErrorReply(event.status()));
    // After a break the client comes again with the ID of its last event; so does one whose stream ends here.
    if (!event.ok() || !*event) return request_.exchange->End();
    if (!std::exchange(begun_, true)) {
      metrics_.event_streams.Increment();  // not while it waits for its turn
      request_.exchange->Begin({.status = 200,
                                .fields = {{"Content-Type", "text/event-stream; charset=utf-8"},
                                           {"Cache-Control", "no-store"},
                                           {"X-Accel-Buffering", "no"}}},
                               std::nullopt);
    }
    request_.exchange->Write(EventText(**event), [self = shared_from_this()] { self->ReadNext(); });
  }

  const RoutedRequest request_;
  GatewayMetrics& metrics_;
  FrontendClient* frontend_ = nullptr;  // from Begin on
  std::shared_ptr<ReplyReader<v1::VideoEvent>> reader_;
  bool begun_ = false;  // the reply has
};

// Last-Event-ID, or the parameter `after`, which a browser's first request can have.
absl::StatusOr<int64_t> AfterSequence(const RoutedRequest& request) {
  const std::string* id = request.exchange->head().Find("last-event-id");
  const auto after = request.query.find("after");
  const std::string text = id != nullptr ? *id : after != request.query.end() ? after->second : "0";
  int64_t sequence = 0;
  if (absl::SimpleAtoi(text, &sequence) && sequence >= 0) return sequence;
  return InvalidField(id != nullptr ? "Last-Event-ID" : "after", "must be the id of an event, a number from 0");
}

}  // namespace

void GetEvents(HandlerContext& context, const RoutedRequest& request) {
  const auto after = AfterSequence(request);
  if (!after.ok()) return request.exchange->Reply(ErrorReply(after.status()));
  if (request.is_head()) {
    return request.exchange->Reply({.status = 200, .fields = {{"Content-Type", "text/event-stream; charset=utf-8"}}});
  }
  context.frontends.Find(request.caller, request.id, request.call,
                         [&context, request, after = *after](absl::StatusOr<FrontendClient*> found) {
                           if (!found.ok()) return request.exchange->Reply(ErrorReply(found.status()));
                           std::make_shared<EventStream>(request, context.metrics)->Begin(**found, after);
                         });
}

}  // namespace kinora
