#include "server/frontend/postgres/postgres_schema.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/postgres/sql_status.h"

namespace kinora {
namespace {

constexpr int64_t kOldestServer = 150000;
constexpr int64_t kMigrationLock = 0x4b494e4f;  // "KINO": the key of the advisory lock for migrations

// Step i upgrades version i to i + 1; version 0 is an empty database. Columns are bigint, text or bytea, and mean what
// those of job_schema.cc mean; times are microseconds since 1970.
//
// Rows that change often leave room on their page, so that a new version of a row needs no change of an index, and
// are vacuumed after few changes, however many rows there are.
constexpr std::array kSteps = {R"sql(
CREATE FUNCTION kinora_now() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

CREATE TABLE jobs (
  ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  state bigint NOT NULL,
  hidden bigint NOT NULL DEFAULT 0,
  expire_micros bigint NOT NULL,
  request_id text COLLATE "C" UNIQUE,
  fingerprint text NOT NULL,
  scheduling bytea NOT NULL,
  detach bigint NOT NULL,
  tied_to text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  lease_micros bigint NOT NULL,
  queued_micros bigint NOT NULL,
  cancel_requested bigint NOT NULL,
  lost_groups bigint NOT NULL,
  last_sequence bigint NOT NULL)
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX jobs_unfinished ON jobs (ordinal) WHERE state < 4 AND hidden = 0;
CREATE INDEX jobs_leased ON jobs (ordinal) WHERE owner <> '';
CREATE INDEX jobs_tied ON jobs (id) WHERE tied_to <> '';
CREATE INDEX jobs_expiry ON jobs (expire_micros) WHERE hidden = 0;
CREATE INDEX jobs_hidden ON jobs (id) WHERE hidden > 0;

CREATE TABLE records (job text COLLATE "C" PRIMARY KEY, video bytea NOT NULL)
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE TABLE events (
  job text COLLATE "C" NOT NULL, sequence bigint NOT NULL, event bytea NOT NULL, PRIMARY KEY (job, sequence));
CREATE TABLE expired (id text COLLATE "C" PRIMARY KEY, micros bigint NOT NULL);
CREATE INDEX expired_micros ON expired (micros);

-- The last transaction of each session (sql_session.h).
CREATE TABLE sessions (id text COLLATE "C" PRIMARY KEY, number bigint NOT NULL, micros bigint NOT NULL)
  WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE TABLE models (id text COLLATE "C" PRIMARY KEY, info bytea NOT NULL);
CREATE TABLE speeds (
  ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, place text COLLATE "C" NOT NULL, run bytea NOT NULL);
CREATE INDEX speeds_of_place ON speeds (place, ordinal);
CREATE TABLE inputs (
  sha256 text COLLATE "C" PRIMARY KEY, bytes bigint NOT NULL, media_type text NOT NULL, expire_micros bigint NOT NULL);
CREATE TABLE frontends (id text COLLATE "C" PRIMARY KEY, address text NOT NULL, lease_micros bigint NOT NULL)
  WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
)sql",
                               R"sql(
ALTER TABLE frontends ADD COLUMN peer_address text NOT NULL DEFAULT '',
  ADD COLUMN join_address text NOT NULL DEFAULT '';

-- The frontend that all ranks of a group join (shared_frontends.h).
CREATE TABLE homes (group_id text COLLATE "C" PRIMARY KEY, frontend text COLLATE "C" NOT NULL)
  WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
)sql"};
constexpr auto kVersion = static_cast<int64_t>(kSteps.size());

class Migration {
 public:
  Migration(SqlConnection& connection, SchemaUse use) : connection_(connection), use_(use) {}

  absl::StatusOr<bool> Run() {
    KINORA_ASSIGN_OR_RETURN(const int64_t server, Ask("SELECT current_setting('server_version_num')"));
    if (server < kOldestServer) {
      return absl::FailedPreconditionError(
          absl::StrCat("the database has PostgreSQL ", server / 10000, "; it must be 15 or later"));
    }
    KINORA_RETURN_IF_ERROR(Do("BEGIN"));
    absl::StatusOr<bool> was_new = TakeSteps();
    const absl::Status ended = Do(was_new.ok() ? "COMMIT" : "ROLLBACK");
    KINORA_RETURN_IF_ERROR(was_new.status());
    KINORA_RETURN_IF_ERROR(ended);
    return was_new;
  }

 private:
  absl::Status Do(const std::string& script) {
    SqlRows none;
    const SqlResult failed = connection_.RunScript(script, kPatience, none);
    return failed ? Explained(*failed) : absl::OkStatus();
  }
  absl::StatusOr<int64_t> Ask(const std::string& script) {
    SqlRows rows;
    if (const SqlResult failed = connection_.RunScript(script, kPatience, rows)) return Explained(*failed);
    return rows.size() == 0 ? -1 : rows.Int(0, 0);
  }

  // 42501: insufficient_privilege. A role that cannot migrate an older schema cannot use it.
  static absl::Status Explained(const SqlError& error) {
    if (error.state != "42501") return ToStatus(error);
    return absl::FailedPreconditionError(absl::StrCat("the database: ", error.message,
                                                      "; create the schema for the frontend's role: CREATE SCHEMA "
                                                      "kinora AUTHORIZATION that_role"));
  }

  absl::StatusOr<bool> TakeSteps() {
    KINORA_RETURN_IF_ERROR(Do(absl::StrCat("SELECT pg_advisory_xact_lock(", kMigrationLock, ")")));
    KINORA_ASSIGN_OR_RETURN(const int64_t schemas, Ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'kinora'"));
    if (schemas == 0 && use_ == SchemaUse::kCopyFrom) {
      return absl::FailedPreconditionError("the database has no schema kinora: no frontend has used it");
    }
    if (schemas == 0) KINORA_RETURN_IF_ERROR(Do("CREATE SCHEMA kinora"));
    KINORA_RETURN_IF_ERROR(Do("SET LOCAL search_path = kinora, pg_catalog"));
    KINORA_ASSIGN_OR_RETURN(const int64_t tables, Ask("SELECT count(*) FROM pg_class WHERE relname = 'schema_version' "
                                                      "AND relnamespace = 'kinora'::regnamespace"));
    if (tables == 0) {
      KINORA_RETURN_IF_ERROR(
          Do("CREATE TABLE schema_version (version bigint NOT NULL, oldest_reader bigint NOT NULL, "
             "epoch bigint NOT NULL); INSERT INTO schema_version VALUES (0, 0, 0)"));
    }
    KINORA_ASSIGN_OR_RETURN(const int64_t version, Ask("SELECT version FROM schema_version"));
    KINORA_ASSIGN_OR_RETURN(const int64_t oldest_reader, Ask("SELECT oldest_reader FROM schema_version"));
    if (oldest_reader == kBeingCopied && use_ != SchemaUse::kCopyInto) {
      return absl::FailedPreconditionError(
          "a copy into the database has not ended; run kinora-frontend --copy-store again");
    }
    if (oldest_reader > kVersion && oldest_reader != kBeingCopied) {
      return absl::FailedPreconditionError(
          absl::StrCat("the database has schema ", version, ", which this version cannot use; it has ", kVersion,
                       "; run a newer version, or restore a backup from before the upgrade"));
    }
    if (version >= kVersion) return false;
    for (int64_t step = version; step < kVersion; ++step) KINORA_RETURN_IF_ERROR(Do(kSteps[step]));
    KINORA_RETURN_IF_ERROR(Do(absl::StrCat("UPDATE schema_version SET version = ", kVersion,
                                           ", oldest_reader = CASE WHEN oldest_reader = ", kBeingCopied,
                                           " THEN oldest_reader ELSE ", kPostgresOldestReader, " END")));
    if (version > 0) Log(Severity::kInfo, "job_store_migrated", {{"from", version}, {"to", kVersion}});
    return version == 0;
  }

  static constexpr SqlConnection::Timeout kPatience = std::chrono::minutes(10);  // a step may rewrite a table
  SqlConnection& connection_;
  const SchemaUse use_;
};

}  // namespace

const char kPostgresGreeting[] =
    "SET search_path = kinora, pg_catalog; SET lock_timeout = '2s'; SET statement_timeout = '8s'; "
    "SET idle_in_transaction_session_timeout = '10s'; "
    // So that the server, too, soon frees the locks of a frontend whose machine has gone.
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

absl::StatusOr<bool> PreparePostgresSchema(SqlSession& session, absl::Time deadline, SchemaUse use) {
  absl::StatusOr<SqlConnection*> connection = session.Connect();
  for (int tries = 0; !connection.ok() && session.Pause(tries, deadline); ++tries) connection = session.Connect();
  KINORA_RETURN_IF_ERROR(connection.status());
  absl::StatusOr<bool> prepared = Migration(**connection, use).Run();
  session.Drop();
  return prepared;
}

}  // namespace kinora
