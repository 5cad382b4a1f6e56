// The precompiled header of the torch-free tests.
#include "core_pch.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
