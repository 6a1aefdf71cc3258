// Early return for absl::Status and absl::StatusOr; the Abseil of Debian 12 has none.
//   KINORA_RETURN_IF_ERROR(stream.Synchronize());
//   KINORA_ASSIGN_OR_RETURN(Tensor w, loader.LoadTensor("norm_q.weight", {inner}));
#ifndef KINORA_ENGINE_BASE_STATUS_MACROS_H_
#define KINORA_ENGINE_BASE_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define KINORA_CONCAT_INNER_(a, b) a##b
#define KINORA_CONCAT_(a, b) KINORA_CONCAT_INNER_(a, b)

#define KINORA_RETURN_IF_ERROR(expression)                                \
  do {                                                                    \
    if (absl::Status kinora_status = (expression); !kinora_status.ok()) { \
      return kinora_status;                                               \
    }                                                                     \
  } while (false)

#define KINORA_ASSIGN_OR_RETURN(declaration, expression) \
  KINORA_ASSIGN_OR_RETURN_IMPL_(KINORA_CONCAT_(kinora_statusor_, __LINE__), declaration, expression)

#define KINORA_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return std::move(result).status();                 \
  declaration = *std::move(result)

#endif  // KINORA_ENGINE_BASE_STATUS_MACROS_H_
