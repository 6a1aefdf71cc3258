#include "server/frontend/postgres/postgres_frontends.h"

#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr char kFrontends[] = "frontends";  // the key of all these transactions, so that they keep their order

absl::Status RunOne(SqlTransaction& transaction, const char* sql, const SqlValues& values) {
  return transaction.Run(sql, values).status();
}

Done<std::vector<JobId>> WhetherAny(Done<bool> done) {
  return [done = std::move(done)](const absl::StatusOr<std::vector<JobId>>& jobs) mutable {
    if (jobs.ok()) {
      done(!jobs->empty());
    } else {
      done(jobs.status());
    }
  };
}

absl::StatusOr<GroupHome> HomeOf(SqlTransaction& transaction, const std::string& group) {
  KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                          transaction.Run("SELECT frontend, join_address FROM homes JOIN frontends "
                                          "ON frontends.id = homes.frontend WHERE group_id = $1 AND "
                                          "lease_micros > kinora_now()",
                                          {group}));
  if (rows.size() == 0) return GroupHome();
  return GroupHome{.frontend = rows.Bytes(0, 0), .join_address = rows.Bytes(0, 1)};
}

}  // namespace

void PostgresFrontendRecords::PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) {
  pool_.Write(
      kFrontends,
      [frontend, lease](SqlTransaction& transaction) {
        return RunOne(transaction,
                      "INSERT INTO frontends (id, address, peer_address, join_address, lease_micros) "
                      "VALUES ($1, $2, $3, $4, kinora_now() + $5) ON CONFLICT (id) DO UPDATE SET "
                      "address = excluded.address, peer_address = excluded.peer_address, "
                      "join_address = excluded.join_address, lease_micros = excluded.lease_micros",
                      {frontend.id, frontend.address, frontend.peer_address, frontend.join_address,
                       absl::ToInt64Microseconds(lease)});
      },
      std::move(done));
}

void PostgresFrontendRecords::EndOtherLeases(const FrontendId& id, Finished done) {
  pool_.Write(
      kFrontends,
      [id](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(RunOne(transaction, "DELETE FROM frontends WHERE id <> $1", {id}));
        return RunOne(transaction,
                      "UPDATE jobs SET lease_micros = kinora_now() WHERE owner <> '' AND owner <> $1 AND hidden = 0",
                      {id});
      },
      std::move(done));
}

void PostgresFrontendRecords::Change(const char* sql, SqlValues values, Done<std::vector<JobId>> done) {
  auto changed = std::make_shared<std::vector<JobId>>();
  pool_.Write(
      kFrontends,
      [sql, values = std::move(values), changed](SqlTransaction& transaction) -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows, transaction.Run(sql, values));
        changed->clear();
        for (int row = 0; row < rows.size(); ++row) changed->push_back(rows.Bytes(row, 0));
        return absl::OkStatus();
      },
      [changed, done = std::move(done)](const absl::Status& status) mutable {
        if (status.ok()) {
          done(std::move(*changed));
        } else {
          done(status);
        }
      });
}

// Locks the jobs in the order of their IDs, so that two frontends that take them at once do not wait for each other.
void PostgresFrontendRecords::TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) {
  Change(
      "WITH lost AS (SELECT id FROM jobs WHERE tied_to <> '' AND hidden = 0 AND ltrim(tied_to, '~') NOT IN "
      "(SELECT id FROM frontends WHERE lease_micros > kinora_now()) ORDER BY id FOR NO KEY UPDATE), "
      "taken AS (UPDATE jobs SET tied_to = $1 FROM lost WHERE jobs.id = lost.id RETURNING jobs.id) "
      "SELECT id FROM taken ORDER BY id",
      {id}, std::move(done));
}

// An offered client is tied to "~<frontend>".
void PostgresFrontendRecords::OfferClient(const JobId& job, const FrontendId& id, Done<bool> done) {
  Change("UPDATE jobs SET tied_to = '~' || $2 WHERE id = $1 AND tied_to = $2 AND hidden = 0 RETURNING id", {job, id},
         WhetherAny(std::move(done)));
}

void PostgresFrontendRecords::EndOffer(const JobId& job, const FrontendId& id, Done<bool> done) {
  Change("UPDATE jobs SET tied_to = $2 WHERE id = $1 AND tied_to = '~' || $2 AND hidden = 0 RETURNING id", {job, id},
         WhetherAny(std::move(done)));
}

void PostgresFrontendRecords::TakeOffered(const std::vector<JobId>& jobs, const FrontendId& id,
                                          Done<std::vector<JobId>> done) {
  pool_.Read<std::vector<JobId>>(  // offers are rare, and writers wait for each other
      [jobs](SqlTransaction& transaction) -> absl::StatusOr<std::vector<JobId>> {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                transaction.Run("SELECT id FROM jobs WHERE tied_to <> '' AND "
                                                "tied_to LIKE '~%' AND id = ANY(string_to_array($1, "
                                                "','))",
                                                {absl::StrJoin(jobs, ",")}));
        std::vector<JobId> offered;
        offered.reserve(rows.size());
        for (int row = 0; row < rows.size(); ++row) offered.push_back(rows.Bytes(row, 0));
        return offered;
      },
      [this, id, done = std::move(done)](absl::StatusOr<std::vector<JobId>> offered) mutable {
        if (!offered.ok() || offered->empty()) return done(std::move(offered));
        Change(
            "WITH offered AS (SELECT id FROM jobs WHERE tied_to LIKE '~%' AND tied_to <> '' AND hidden = 0 AND "
            "id = ANY(string_to_array($1, ',')) ORDER BY id FOR NO KEY UPDATE), "
            "taken AS (UPDATE jobs SET tied_to = $2 FROM offered WHERE jobs.id = offered.id RETURNING jobs.id) "
            "SELECT id FROM taken ORDER BY id",
            {absl::StrJoin(*offered, ","), id}, std::move(done));
      });
}

void PostgresFrontendRecords::LivingFrontends(Done<std::vector<FrontendEntry>> done) {
  pool_.Read<std::vector<FrontendEntry>>(
      [](SqlTransaction& transaction) -> absl::StatusOr<std::vector<FrontendEntry>> {
        KINORA_ASSIGN_OR_RETURN(const SqlRows rows,
                                transaction.Run("SELECT id, address, peer_address, join_address FROM frontends "
                                                "WHERE lease_micros > kinora_now() ORDER BY lease_micros DESC"));
        std::vector<FrontendEntry> living;
        living.reserve(rows.size());
        for (int row = 0; row < rows.size(); ++row) {
          living.push_back({.id = rows.Bytes(row, 0),
                            .address = rows.Bytes(row, 1),
                            .peer_address = rows.Bytes(row, 2),
                            .join_address = rows.Bytes(row, 3)});
        }
        return living;
      },
      std::move(done));
}

void PostgresFrontendRecords::RemoveFrontend(const FrontendId& id, Finished done) {
  pool_.Write(
      kFrontends,
      [id](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(RunOne(transaction, "DELETE FROM homes WHERE frontend = $1", {id}));
        return RunOne(transaction, "DELETE FROM frontends WHERE id = $1", {id});
      },
      std::move(done));
}

// The frontend that claims counts as alive even if its own lease is over: it is about to be renewed.
void PostgresFrontendRecords::ClaimHome(const std::string& group, const FrontendEntry& frontend, Done<GroupHome> done) {
  auto home = std::make_shared<GroupHome>();
  pool_.Write(
      kFrontends,
      [group, frontend, home](SqlTransaction& transaction) -> absl::Status {
        KINORA_RETURN_IF_ERROR(RunOne(
            transaction,
            "INSERT INTO homes (group_id, frontend) VALUES ($1, $2) ON CONFLICT (group_id) DO UPDATE "
            "SET frontend = excluded.frontend WHERE homes.frontend <> excluded.frontend AND NOT EXISTS (SELECT FROM "
            "frontends WHERE id = homes.frontend AND lease_micros > kinora_now() AND "
            "(join_address = '' OR join_address <> $3))",
            {group, frontend.id, frontend.join_address}));
        KINORA_ASSIGN_OR_RETURN(*home, HomeOf(transaction, group));
        if (home->frontend.empty()) *home = {.frontend = frontend.id, .join_address = frontend.join_address};
        return absl::OkStatus();
      },
      [home, done = std::move(done)](const absl::Status& status) mutable {
        if (status.ok()) {
          done(std::move(*home));
        } else {
          done(status);
        }
      });
}

void PostgresFrontendRecords::LeaveHome(const std::string& group, const FrontendId& frontend, Finished done) {
  pool_.Write(
      kFrontends,
      [group, frontend](SqlTransaction& transaction) {
        return RunOne(transaction, "DELETE FROM homes WHERE group_id = $1 AND frontend = $2", {group, frontend});
      },
      std::move(done));
}

void PostgresFrontendRecords::FindHome(const std::string& group, Done<GroupHome> done) {
  pool_.Read<GroupHome>([group](SqlTransaction& transaction) { return HomeOf(transaction, group); }, std::move(done));
}

}  // namespace kinora
