package holdfasttest_test
var seenScript func(string)
