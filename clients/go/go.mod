module nereid/clients/go

go 1.24
