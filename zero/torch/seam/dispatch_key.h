// kParameterKey: the dispatch key that marks parameters whose storage may be empty.
//
// DeferredInit is above autograd, autocast and vmap. Views inherit it, results never do. No release of PyTorch from
// 1.13 to 2.14 uses it. Everything that depends on the choice uses this constant.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

namespace zero {

constexpr c10::DispatchKey kParameterKey = c10::DispatchKey::DeferredInit;

// The keys to which an operator is redispatched after its parameters are gathered.
inline c10::DispatchKeySet below_parameter_key(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kParameterKey);
}

}  // namespace zero
