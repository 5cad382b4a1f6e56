zero_tests(torch TORCH FLOORS base plan comm memory optim engine torch)
zero_tests(models TORCH LIBS zero zero_core)
zero_tests(train TORCH LIBS zero zero_core)
zero_tests(parity TORCH LABEL slow TIMEOUT 1800 LIBS zero zero_core)
