package fence_test

const writerEnv = "HOLDFAST_TEST_FENCED_WRITER"

func write(string) error { return nil }
