#include "tests/testing/postgres_server.h"

#include <pwd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/check.h"
#include "server/frontend/postgres/sql_module.h"
#include "tests/testing/free_port.h"

namespace kinora {
namespace {

constexpr SqlConnection::Timeout kPatience = std::chrono::seconds(30);
constexpr char kOwner[] = "kinora";

std::string Program(const std::string& name) {
  const std::filesystem::path versions = "/usr/lib/postgresql";
  std::error_code error;
  for (const auto& version : std::filesystem::directory_iterator(versions, error)) {
    const std::filesystem::path path = version.path() / "bin" / name;
    if (std::filesystem::exists(path)) return path.string();
  }
  return "";
}

// The server refuses to run as root; Debian's package has a user for it. It ends with this process.
std::vector<std::string> Unprivileged(std::vector<std::string> command) {
  std::vector<std::string> prefix = {"/usr/bin/setpriv", "--pdeathsig", "KILL"};
  if (getuid() == 0) {
    for (const char* option : {"--reuid=postgres", "--regid=postgres", "--init-groups"}) prefix.emplace_back(option);
  }
  command.insert(command.begin(), prefix.begin(), prefix.end());
  return command;
}

bool OthersMayEnter(const std::filesystem::path& path) {
  for (std::filesystem::path folder = path;; folder = folder.parent_path()) {
    std::error_code error;
    const auto permissions = std::filesystem::status(folder, error).permissions();
    if (error || (permissions & std::filesystem::perms::others_exec) == std::filesystem::perms::none) return false;
    if (folder == folder.parent_path()) return true;
  }
}

std::string MakeDirectory() {
  std::vector<std::filesystem::path> parents = {std::filesystem::temp_directory_path(), "/tmp", "/var/tmp", "/dev/shm"};
  if (getuid() == 0) std::erase_if(parents, [](const auto& path) { return !OthersMayEnter(path); });
  KINORA_CHECK(!parents.empty()) << "no temporary folder that the user postgres may enter";
  std::string name = (parents[0] / "kinora-postgres-XXXXXX").string();
  KINORA_CHECK(mkdtemp(name.data()) != nullptr) << name;
  if (getuid() == 0) {
    const passwd* const user = getpwnam("postgres");
    KINORA_CHECK(user != nullptr && chown(name.c_str(), user->pw_uid, user->pw_gid) == 0) << name;
  }
  return name;
}

}  // namespace

bool PostgresServer::IsInstalled() {
  const bool installed = !Program("initdb").empty();
  KINORA_CHECK(installed || std::getenv("KINORA_MUST_RUN") == nullptr)
      << "PostgreSQL is not installed: run scripts/install-deps --ci";
  return installed;
}

PostgresServer& PostgresServer::Shared() {
  static PostgresServer server;
  return server;
}

const SqlDriver& PostgresServer::Driver() {
  static const SqlDriver* const driver = OpenPostgresDriver(KINORA_POSTGRESQL_MODULE).value();
  return *driver;
}

PostgresServer::PostgresServer() : directory_(MakeDirectory()) {
  const ProcessResult made =
      RunProcess(Unprivileged({Program("initdb"), "--pgdata", File("data"), "--username", kOwner, "--auth", "trust",
                               "--no-sync", "--encoding", "UTF8", "--locale", "C.UTF-8"}));
  KINORA_CHECK(made.exit_status == 0) << made.err;
  Start();
}

PostgresServer::~PostgresServer() {
  Kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void PostgresServer::Start() {
  const absl::Time end = absl::Now() + absl::Seconds(60);
  std::string why;
  while (absl::Now() < end) {  // again if processes of a killed server still end
    if (process_ == nullptr) port_ = FreePort();
    process_ = std::make_unique<Subprocess>(
        Unprivileged({Program("postgres"), "-D", File("data"), "-c", absl::StrCat("port=", port_), "-c",
                      "listen_addresses=127.0.0.1", "-c", absl::StrCat("unix_socket_directories=", directory_), "-c",
                      "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=64MB"}));
    while (absl::Now() < end) {
      std::unique_ptr<SqlConnection> connection;
      const SqlResult failed = Driver().Connect(OverSocket("postgres"), connection);
      if (!failed) return;
      why = absl::StrCat(failed->message, "\n", process_->ErrSoFar());
      const bool again = why.find("pre-existing shared memory block") != std::string::npos;
      const bool taken = why.find("Address already in use") != std::string::npos;
      if (taken) process_.reset();
      if (again || taken) break;
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  KINORA_CHECK(false) << why;
}

void PostgresServer::Kill() {
  kill(process_->pid(), SIGKILL);  // its other processes end when they notice
  process_->Wait();
}

std::string PostgresServer::Url(const std::string& database) const {
  return absl::StrCat("postgresql://", kOwner, "@127.0.0.1:", port_, "/", database);
}

// Another server may have taken the port.
std::string PostgresServer::OverSocket(const std::string& database) const {
  return absl::StrCat("postgresql:///", database, "?user=", kOwner, "&port=", port_, "&host=", directory_);
}

std::string PostgresServer::NewDatabase() {
  const std::string name = absl::StrCat("kinora", ++databases_, "_", getpid());
  Execute(OverSocket("postgres"), absl::StrCat("CREATE DATABASE ", name));
  return Url(name);
}

void PostgresServer::Execute(const std::string& url, const std::string& script) { Query(url, script); }

SqlRows PostgresServer::Query(const std::string& url, const std::string& script) {
  std::unique_ptr<SqlConnection> connection;
  const SqlResult unreachable = Driver().Connect(url, connection);
  KINORA_CHECK(!unreachable) << url << ": " << unreachable->message;
  SqlRows rows;
  const SqlResult failed = connection->RunScript(script, kPatience, rows);
  KINORA_CHECK(!failed) << script << ": " << failed->message;
  return rows;
}

}  // namespace kinora
