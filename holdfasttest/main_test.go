package holdfasttest_test

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // stories on real servers mostly wait
	redistest.Main(m)
}
