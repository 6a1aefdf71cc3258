// Turns an asynchronous call with a callback into a blocking call.
//   auto video = WaitFor<v1::Video>([&](Done<v1::Video> done) { store.Get(id, std::move(done)); });
#ifndef KINORA_TESTS_TESTING_WAIT_FOR_H_
#define KINORA_TESTS_TESTING_WAIT_FOR_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"

namespace kinora {

template <typename T, typename Call>
absl::StatusOr<T> WaitFor(Call call) {
  absl::StatusOr<T> result = absl::UnknownError("no answer");
  absl::Notification answered;
  call([&](absl::StatusOr<T> value) {
    result = std::move(value);
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

template <typename Call>
absl::Status WaitForStatus(Call call) {
  absl::Status result;
  absl::Notification answered;
  call([&](absl::Status status) {
    result = std::move(status);
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_WAIT_FOR_H_
