// A frontend over real gRPC, with the jobs, errors and pages that a test gives it. Like the real one it takes 128 calls
// per connection.
#ifndef KINORA_TESTS_SERVER_GATEWAY_SCRIPTED_FRONTEND_H_
#define KINORA_TESTS_SERVER_GATEWAY_SCRIPTED_FRONTEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/gateway/frontend_client.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

class ScriptedFrontend {
 public:
  // Jobs that clients create are called PREFIX-1, PREFIX-2, ….
  explicit ScriptedFrontend(const std::string& prefix = "made");
  ~ScriptedFrontend();

  const std::string& address() const { return address_; }
  std::unique_ptr<FrontendClient> Connect(const CallQueueLimits& limits = {}) const;

  void AddJob(const std::string& id, int created_seconds);  // QUEUED
  // The job has completed, but its watches learn of it only once GetVideo has been called.
  void EndJobQuietly(const std::string& id);
  void SetModel(const std::string& id);                  // the only one; until then "ltx"
  void Reject(const std::string& method, absl::Status);  // calls of this method from now on: "GetVideo", …
  // Leaves calls of this method ("GetVideo", "UploadInput") without an answer until Release. An upload gets metadata
  // at its first message, as from the real frontend.
  void Hold(const std::string& method);
  void Release(const std::string& method);
  void SetMostOnPage(int videos);          // of ListVideos; the first page of each list is empty
  std::vector<std::string> Calls() const;  // the methods called so far, in order

 private:
  class Service;
  struct Server;

  TemporaryDirectory directory_;
  const std::string address_;
  const std::unique_ptr<Service> service_;
  const std::unique_ptr<Server> server_;
};

// A client of an address where nobody listens.
std::unique_ptr<FrontendClient> ConnectToNobody();

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_GATEWAY_SCRIPTED_FRONTEND_H_
