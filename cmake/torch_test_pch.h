// The precompiled header of the tests that include torch.
#include <gtest/gtest.h>

#include "pch.h"
