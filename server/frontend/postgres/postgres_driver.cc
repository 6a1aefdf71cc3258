// SqlDriver with PostgreSQL's libpq: the whole of the module kinora-postgresql.so.
#include <libpq-fe.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "server/frontend/postgres/sql_driver.h"

namespace kinora {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBinary = 1, kText = 0;
constexpr Oid kBigint = 20;

// libpq's messages have several lines, of which the first says what is wrong.
std::string FirstLine(const char* message) {
  std::string line(message, std::strcspn(message, "\n"));
  return line.empty() ? "no answer" : line;
}

struct FreeResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, FreeResult>;

// A binary bigint as decimal digits.
std::string Digits(const char* bytes) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return std::to_string(static_cast<int64_t>(number));
}

SqlRows RowsOf(const PGresult* result) {
  const int rows = PQntuples(result), columns = PQnfields(result);
  std::vector<std::optional<std::string>> cells;
  cells.reserve(static_cast<size_t>(rows) * columns);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      std::optional<std::string>& cell = cells.emplace_back();
      if (PQgetisnull(result, r, c) != 0) continue;
      const char* const value = PQgetvalue(result, r, c);
      const bool is_number = PQfformat(result, c) == kBinary && PQftype(result, c) == kBigint;
      cell = is_number ? Digits(value) : std::string(value, PQgetlength(result, r, c));
    }
  }
  return {columns, std::move(cells)};
}

bool Failed(const PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
}

SqlError ErrorOf(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  return {.state = state == nullptr ? "" : state,
          .message = FirstLine(message == nullptr ? PQresultErrorMessage(result) : message)};
}

class PostgresConnection : public SqlConnection {
 public:
  explicit PostgresConnection(PGconn* connection) : connection_(connection) {
    PQsetNoticeProcessor(  // otherwise they go to standard error; errors are returned anyway
        connection_, [](void*, const char*) {}, nullptr);
  }
  ~PostgresConnection() override { PQfinish(connection_); }

  SqlResult Run(const std::string& sql, const SqlValues& values, Timeout timeout, SqlRows& rows) override {
    const Clock::time_point end = Clock::now() + timeout;
    const auto known = prepared_.find(sql);
    std::string name = known == prepared_.end() ? "s" + std::to_string(prepared_.size()) : known->second;
    if (known == prepared_.end()) {
      if (PQsendPrepare(connection_, name.c_str(), sql.c_str(), 0, nullptr) == 0) return Lost();
      if (SqlResult failed = Answer(end, rows)) return failed;
      prepared_.emplace(sql, name);
    }
    std::vector<const char*> data;
    std::vector<int> lengths, formats;
    for (const SqlValue& value : values) {
      data.push_back(value.is_null() ? nullptr : value.value().data());
      lengths.push_back(static_cast<int>(value.value().size()));
      formats.push_back(value.is_number() ? kText : kBinary);
    }
    if (PQsendQueryPrepared(connection_, name.c_str(), static_cast<int>(values.size()), data.data(), lengths.data(),
                            formats.data(), kBinary) == 0) {
      return Lost();
    }
    return Answer(end, rows);
  }

  SqlResult RunScript(const std::string& sql, Timeout timeout, SqlRows& rows) override {
    if (PQsendQuery(connection_, sql.c_str()) == 0) return Lost();
    return Answer(Clock::now() + timeout, rows);
  }

 private:
  SqlError Lost(const char* why = nullptr) const {
    return {.lost = true, .message = why == nullptr ? FirstLine(PQerrorMessage(connection_)) : why};
  }

  bool Await(short events, Clock::time_point end) const {
    while (true) {
      const auto left = std::chrono::duration_cast<Timeout>(end - Clock::now()).count();
      if (left <= 0) return false;
      pollfd file = {PQsocket(connection_), events, 0};
      const int ready = poll(&file, 1, static_cast<int>(left));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  // Reads the answers to what was sent. Returns the first error, and the rows of the last answer.
  SqlResult Answer(Clock::time_point end, SqlRows& rows) {
    while (const int unsent = PQflush(connection_)) {
      if (unsent < 0) return Lost();
      if (!Await(POLLIN | POLLOUT, end)) return Lost("the server does not answer");
      if (PQconsumeInput(connection_) == 0) return Lost();
    }
    SqlResult failure;
    while (true) {
      while (PQisBusy(connection_) != 0) {
        if (!Await(POLLIN, end)) return Lost("the server does not answer");
        if (PQconsumeInput(connection_) == 0) return Lost();
      }
      const Result result(PQgetResult(connection_));
      if (result == nullptr) break;
      if (!Failed(result.get())) {
        rows = RowsOf(result.get());
      } else if (!failure) {
        failure = ErrorOf(result.get());
      }
    }
    if (PQstatus(connection_) != CONNECTION_OK) {  // its last message can say why, such as a shutdown
      return SqlError{.lost = true, .state = failure ? failure->state : "", .message = failure ? failure->message : ""};
    }
    return failure;
  }

  PGconn* const connection_;
  std::unordered_map<std::string, std::string> prepared_;  // names, by the statement
};

class PostgresDriver : public SqlDriver {
 public:
  SqlResult Connect(const std::string& url, std::unique_ptr<SqlConnection>& connection) const override {
    // Values that the URL, which is expanded last, can replace.
    const char* const keys[] = {"application_name",     "connect_timeout",  "keepalives_idle",
                                "keepalives_interval",  "keepalives_count", "tcp_user_timeout",
                                "target_session_attrs", "dbname",           nullptr};
    const char* const values[] = {"kinora-frontend", "3", "5", "2", "3", "10000", "read-write", url.c_str(), nullptr};
    PGconn* const made = PQconnectdbParams(keys, values, /*expand_dbname=*/1);
    auto begun = std::make_unique<PostgresConnection>(made);
    if (PQstatus(made) != CONNECTION_OK || PQsetnonblocking(made, 1) != 0) {
      return SqlError{.lost = true, .message = FirstLine(PQerrorMessage(made))};
    }
    connection = std::move(begun);
    return std::nullopt;
  }

  SqlResult CheckUrl(const std::string& url) const override {
    char* why = nullptr;
    PQconninfoOption* const options = PQconninfoParse(url.c_str(), &why);
    const std::string message = FirstLine(why == nullptr ? "" : why);
    const bool valid = options != nullptr;
    PQconninfoFree(options);
    PQfreemem(why);
    if (valid) return std::nullopt;
    // Other messages quote what may be a part of the password.
    if (message.rfind("invalid URI query parameter", 0) == 0) return SqlError{.message = message};
    return SqlError{.message = "is not a valid URL; write special characters of the user and password as %XX"};
  }
};

}  // namespace
}  // namespace kinora

extern "C" const kinora::SqlDriver* kinora_sql_driver_1() {
  static const kinora::PostgresDriver driver;
  return &driver;
}
