// Reports the state of a PostgreSQL database as metrics, every quarter of a minute.
#ifndef KINORA_SERVER_FRONTEND_POSTGRES_DATABASE_FIGURES_H_
#define KINORA_SERVER_FRONTEND_POSTGRES_DATABASE_FIGURES_H_

#include <memory>

#include "server/frontend/postgres/sql_pool.h"
#include "server/net/executor.h"

namespace kinora {

struct FrontendMetrics;

class DatabaseFigures {
 public:
  // None is owned; flush the pool after Stop.
  DatabaseFigures(SqlPool& pool, FrontendMetrics& metrics, std::unique_ptr<Executor> loop);
  ~DatabaseFigures() { Stop(); }
  void Stop() { loop_->Stop(); }

 private:
  void Ask();

  SqlPool& pool_;
  FrontendMetrics& metrics_;
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_POSTGRES_DATABASE_FIGURES_H_
