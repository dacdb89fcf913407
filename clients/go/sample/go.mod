module orders

go 1.24

require (
	github.com/gocql/gocql v1.7.0
	gopkg.in/inf.v0 v0.9.1
	nereid/clients/go v0.0.0
)

require (
	github.com/golang/snappy v0.0.3 // indirect
	github.com/hailocab/go-hostpool v0.0.0-20160125115350-e80d13ce29ed // indirect
)

replace nereid/clients/go => ../
