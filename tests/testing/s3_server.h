// An S3 server of the test's own: tests/server/s3/s3_server.py, which is moto behind a proxy that fails as it is told.
#ifndef KINORA_TESTS_TESTING_S3_SERVER_H_
#define KINORA_TESTS_TESTING_S3_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "server/s3/http_client.h"
#include "server/s3/s3_location.h"
#include "server/s3/sigv4.h"
#include "tests/testing/subprocess.h"

namespace kinora {

class S3Server {
 public:
  // Whether moto is installed. Where KINORA_MUST_RUN is set, it must be.
  static bool IsInstalled();
  static S3Server& Shared();  // of this test program; it stops with it

  S3Server();

  // Returns a new prefix of the bucket "clips", whose server is the proxy.
  S3Options NewPlace();
  std::string endpoint() const;  // of the proxy
  AwsKeys keys() const { return keys_; }
  AwsKeys denied() const { return denied_; }  // may only read

  void SetFaults(const std::string& json);  // s3_server.py says how
  // How many requests "METHOD PATH?QUERY" so far match the regular expression.
  int CountRequests(const std::string& pattern);
  void ClearFaults() { SetFaults("[]"); }

 private:
  std::string Ask(const std::string& method, const std::string& page, const std::string& body);

  std::unique_ptr<Subprocess> process_;
  HttpClient http_;
  AwsKeys keys_, denied_;
  int proxy_port_ = 0, places_ = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_S3_SERVER_H_
