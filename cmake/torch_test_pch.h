// The precompiled header of the tests that include torch.
#include "pch.h"

#include <gtest/gtest.h>
