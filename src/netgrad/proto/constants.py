"""The names that predictor files use inside."""

from netgrad.proto.predictor_consts_pb2 import PredictorConsts

predictor_constants = PredictorConsts()
