// kParameterKey: the dispatch key that marks parameters whose storage may be empty.
//
// DeferredInit lies above autograd, autocast and vmap, travels to views but never to results, and no release of PyTorch
// from 1.13 to 2.14 uses it. Everything that depends on the choice goes through this constant.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

namespace zero {

constexpr c10::DispatchKey kParameterKey = c10::DispatchKey::DeferredInit;

// What an operator is redispatched to once its parameters are there.
inline c10::DispatchKeySet below_parameter_key(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kParameterKey);
}

}  // namespace zero
