package main

import (
	"testing"

	_ "github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
