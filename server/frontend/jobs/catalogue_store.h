// Stores the catalogue: what is known about models while no group is up. store_call.h says how it is called.
#ifndef KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_STORE_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/frontend/jobs/store_call.h"

namespace kinora {

class CatalogueStore {
 public:
  virtual ~CatalogueStore() = default;

  // Models described by groups, stored so that requests can be validated while no group is up. Replaces the model of
  // the same id. Models are returned in the order of their ids.
  virtual void PutModel(const v1::ModelInfo& model, Finished done) = 0;
  virtual void Models(Done<std::vector<v1::ModelInfo>> done) = 0;

  // Run times, oldest first: the last kSpeedsKept per `place` (model, precision, mesh and device), except those older
  // than thousands of other runs.
  static constexpr int kSpeedsKept = 50;
  virtual void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) = 0;
  virtual void Speeds(const std::string& place, Done<v1::SpeedHistory> done) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_STORE_H_
