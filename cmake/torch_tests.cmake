zero_tests(torch TORCH FLOORS base plan comm memory optim engine torch)
zero_tests(models TORCH LIBS zero zero_core)
zero_tests(train TORCH LIBS zero zero_core)
zero_tests(parity TORCH LABEL slow TIMEOUT 1800 FLOORS base plan comm memory optim engine torch models)

# Position-independent like the precompiled header they share: with an executable's -fPIE the compiler would refuse it, and read
# torch/torch.h again for every file.
foreach(folder torch models train parity)
  if(TARGET zero_${folder}_test)
    set_target_properties(zero_${folder}_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(zero_${folder}_test PRIVATE -fPIC)
  endif()
endforeach()
