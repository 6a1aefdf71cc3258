// The flags of an attacked frontend that shares a database and a bucket, both of the attack's own.
#ifndef KINORA_TESTS_ATTACK_SHARED_TARGET_H_
#define KINORA_TESTS_ATTACK_SHARED_TARGET_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "tests/testing/postgres_server.h"
#include "tests/testing/s3_server.h"

namespace kinora {

struct SharedTarget {
  SharedTarget() {
    KINORA_CHECK(PostgresServer::IsInstalled() && S3Server::IsInstalled());
    S3Server& server = S3Server::Shared();
    setenv("AWS_ACCESS_KEY_ID", server.keys().id.c_str(), 1);
    setenv("AWS_SECRET_ACCESS_KEY", server.keys().secret.c_str(), 1);
    const S3Options place = server.NewPlace();
    database = PostgresServer::Shared().NewDatabase();
    flags = {absl::StrCat("--store=", database), absl::StrCat("--artifacts=", place.url),
             absl::StrCat("--s3-endpoint=", place.endpoint), absl::StrCat("--s3-region=", place.region),
             "--s3-path-style"};
  }
  std::string database;  // its URL
  std::vector<std::string> flags;
};

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_SHARED_TARGET_H_
