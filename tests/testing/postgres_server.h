// A PostgreSQL server of the test's own, as Debian installs it.
#ifndef KINORA_TESTS_TESTING_POSTGRES_SERVER_H_
#define KINORA_TESTS_TESTING_POSTGRES_SERVER_H_

#include <memory>
#include <string>

#include "server/frontend/postgres/sql_driver.h"
#include "tests/testing/subprocess.h"

namespace kinora {

class PostgresServer {
 public:
  // Whether the server's programs are installed. Where KINORA_MUST_RUN is set, they must be.
  static bool IsInstalled();
  static PostgresServer& Shared();  // of this test program; it stops with it
  static const SqlDriver& Driver();

  PostgresServer();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  int port() const { return port_; }  // on 127.0.0.1
  std::string NewDatabase();          // creates an empty one and returns its URL
  // Runs statements in the database of this URL as its owner.
  static void Execute(const std::string& url, const std::string& script);
  static SqlRows Query(const std::string& url, const std::string& script);

  void Kill();   // as kill -9, of all its processes
  void Start();  // after Kill, and recovers

 private:
  std::string Url(const std::string& database) const;
  std::string OverSocket(const std::string& database) const;

  std::string File(const std::string& name) const { return directory_ + "/" + name; }

  const std::string directory_;  // which the server's user may enter, whatever TMPDIR is
  int port_ = 0;
  int databases_ = 0;
  std::unique_ptr<Subprocess> process_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_POSTGRES_SERVER_H_
