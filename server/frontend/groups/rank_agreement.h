// What the ranks of a group must have in common.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RANK_AGREEMENT_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RANK_AGREEMENT_H_

#include <string>

#include "kinora/v1/worker.pb.h"

namespace kinora {

// Returns the first property in which two ranks of a group must agree but differ, with both values; empty if none.
std::string Disagreement(const v1::Ready& a, const v1::Ready& b);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RANK_AGREEMENT_H_
