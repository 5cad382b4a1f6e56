#include "zero/base/error/check.h"

namespace zero::detail {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  throw InternalError(
      fmt::format("internal error at {}:{}: {} does not hold{}{}\n  This is a bug in zero.cpp; please report it with "
                  "the command you ran.",
                  file, line, expression, message.empty() ? "" : ": ", message));
}

}  // namespace zero::detail
