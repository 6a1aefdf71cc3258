#include "server/frontend/postgres/database_figures.h"

#include <cstdint>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/common/metrics.h"

namespace kinora {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(15);

struct Figures {
  int64_t dead_rows = 0, oldest_micros = 0;
};

// The server shows transactions of other roles only to members of pg_read_all_stats.
absl::StatusOr<Figures> FiguresOf(SqlTransaction& transaction) {
  KINORA_ASSIGN_OR_RETURN(
      const SqlRows rows,
      transaction.Run(
          "SELECT (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'kinora'), "
          "(SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)) * 1000000, 0)::bigint "
          "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())"));
  return Figures{.dead_rows = rows.Int(0, 0), .oldest_micros = rows.Int(0, 1)};
}

}  // namespace

DatabaseFigures::DatabaseFigures(SqlPool& pool, FrontendMetrics& metrics, std::unique_ptr<Executor> loop)
    : pool_(pool), metrics_(metrics), loop_(std::move(loop)) {
  loop_->Post([this] { Ask(); });
}

void DatabaseFigures::Ask() {
  loop_->PostAt(loop_->Now() + kInterval, [this] { Ask(); });
  metrics_.database_calls.Add({}).Set(pool_.calls());
  pool_.Read<Figures>(&FiguresOf, [this](const absl::StatusOr<Figures>& figures) {
    if (!figures.ok()) return;  // kinora_job_store_unwritable_seconds tells
    metrics_.database_dead_rows.Add({}).Set(static_cast<double>(figures->dead_rows));
    metrics_.database_oldest_transaction_seconds.Add({}).Set(static_cast<double>(figures->oldest_micros) / 1e6);
  });
}

}  // namespace kinora
