// A database's client library behind an interface of standard types: the library is linked to a module that is opened
// when a configuration asks for it (sql_module.h), so that frontends which do not can run without it.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_SQL_DRIVER_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_SQL_DRIVER_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kinora {

// A parameter of a statement, or NULL.
class SqlValue {
 public:
  SqlValue(int64_t number) : value_(std::to_string(number)), is_number_(true) {}
  SqlValue(std::string bytes) : value_(std::move(bytes)) {}  // text or bytea, as the statement has it
  static SqlValue Null() {
    SqlValue value(std::string{});
    value.is_null_ = true;
    return value;
  }

  const std::string& value() const { return value_; }  // a number in decimal digits
  bool is_number() const { return is_number_; }
  bool is_null() const { return is_null_; }

 private:
  std::string value_;
  bool is_number_ = false, is_null_ = false;
};
using SqlValues = std::vector<SqlValue>;

// The rows of an answer. A column has the type bigint, text or bytea.
class SqlRows {
 public:
  SqlRows() = default;
  SqlRows(int columns, std::vector<std::optional<std::string>> cells) : columns_(columns), cells_(std::move(cells)) {}

  int size() const { return columns_ == 0 ? 0 : static_cast<int>(cells_.size()) / columns_; }
  const std::string& Bytes(int row, int column) const { return cells_[row * columns_ + column].value(); }
  int64_t Int(int row, int column) const {
    const std::string& digits = Bytes(row, column);
    return std::strtoll(digits.c_str(), nullptr, 10);
  }
  bool IsNull(int row, int column) const { return !cells_[row * columns_ + column].has_value(); }

 private:
  int columns_ = 0;
  std::vector<std::optional<std::string>> cells_;
};

struct SqlError {
  bool lost = false;    // of the connection, which cannot be used again; the statement may have been executed
  std::string state{};  // five characters (SQLSTATE); empty if the server did not answer
  std::string message;  // one line
};
using SqlResult = std::optional<SqlError>;  // nothing: success

// One thread at a time may use it.
class SqlConnection {
 public:
  using Timeout = std::chrono::milliseconds;  // for the server's answer; then the connection counts as lost

  virtual ~SqlConnection() = default;

  // Runs one statement with parameters $1, $2, …; prepared the first time.
  virtual SqlResult Run(const std::string& sql, const SqlValues& values, Timeout timeout, SqlRows& rows) = 0;
  // Runs statements without parameters in one message. Returns the last one's rows.
  virtual SqlResult RunScript(const std::string& sql, Timeout timeout, SqlRows& rows) = 0;
};

class SqlDriver {
 public:
  virtual ~SqlDriver() = default;
  // Waits for each host of the URL for three seconds, unless the URL says otherwise.
  virtual SqlResult Connect(const std::string& url, std::unique_ptr<SqlConnection>& connection) const = 0;
  // Without connecting. The message repeats nothing of the URL but the name of an unknown parameter.
  virtual SqlResult CheckUrl(const std::string& url) const = 0;
};

// The module exports a function of this type and name. Its number changes with these classes.
using SqlDriverFunction = const SqlDriver*();
inline constexpr char kSqlDriverFunction[] = "kinora_sql_driver_1";

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_SQL_DRIVER_H_
