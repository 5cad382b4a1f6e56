// The precompiled header of the torch-free tests.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "core_pch.h"
